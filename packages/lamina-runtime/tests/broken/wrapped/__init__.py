"""Shared by defective implementations: the default dispatcher with wrapped jitted or mapped functions."""
from lamina_tracing import hooks


class Call:
    def __init__(self, run, called):
        self.run, self.called = run, called

    def __getattr__(self, name):
        return getattr(self.run, name)

    def __call__(self, *args, **kwargs):
        return self.called(*args, **kwargs)


class Dispatcher:
    def __init__(self, default, jit, pmap):
        self.default, self.wrap_jit, self.wrap_pmap = default, jit, pmap

    def jit(self, spec):
        run = self.default.jit(spec)
        return Call(run, self.wrap_jit(run, spec)) if self.wrap_jit else run

    def pmap(self, spec):
        run = self.default.pmap(spec)
        return Call(run, self.wrap_pmap(run, spec)) if self.wrap_pmap else run

    def __getattr__(self, name):
        return getattr(self.default, name)


def wrap(jit=None, pmap=None):
    """Install a dispatcher that calls `jit(run, spec)` instead of the default `run` of jit; `pmap` likewise."""
    hooks.set_dispatcher(Dispatcher(hooks.dispatcher, jit, pmap))
