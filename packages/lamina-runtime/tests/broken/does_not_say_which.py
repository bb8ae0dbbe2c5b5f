"""What is refused is refused without saying which argument it is."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def silent(run, spec):
    def call(*args, **kwargs):
        try:
            return run(*args, **kwargs)
        except TypeError:
            raise TypeError("that cannot be") from None
    return call


wrap(jit=silent)
