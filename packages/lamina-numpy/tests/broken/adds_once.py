"""Of positions that occur twice one is changed once."""
from lamina_numpy._default import *
from lamina_tracing import hooks

__contract__ = 1

_at = hooks.operators.array_table["at"]


class _Places:
    def __init__(self, x):
        self.x = x

    def __getitem__(self, index):
        return _Changes(self.x, index)


class _Changes:
    def __init__(self, x, index):
        self.x, self.index, self.default = x, index, _at.fget(x)[index]

    def add(self, values, **options):
        return self.default.set(self.x[self.index] + values, **options)

    def __getattr__(self, name):
        return getattr(self.default, name)


hooks.operators.install({"at": property(_Places)}, {"at": property(_Places)})
