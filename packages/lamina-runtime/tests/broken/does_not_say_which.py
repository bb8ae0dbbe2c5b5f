"""What is refused is refused without saying which argument it is."""
from lamina_runtime.stock import *
from lamina_tracing import slots

__contract__ = 1


class Dispatcher:
    def __init__(self, stock):
        self.stock = stock

    def jit(self, spec):
        return Call(self.stock.jit(spec), spec)

    def pmap(self, spec):
        return self.stock.pmap(spec)

    def __getattr__(self, name):
        return getattr(self.stock, name)


class Call:
    def __init__(self, run, spec):
        self.run, self.spec, self.seen = run, spec, {}

    def __getattr__(self, name):
        return getattr(self.run, name)

    def __call__(self, *args, **kwargs):
        try:
            return self.run(*args, **kwargs)
        except TypeError:
            raise TypeError("that cannot be") from None


slots.set_dispatcher(Dispatcher(slots.dispatcher))
