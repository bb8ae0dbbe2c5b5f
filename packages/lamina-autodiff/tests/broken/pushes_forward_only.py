"""Correct but slow: a gradient takes one JVP per element. All conformance tests pass except those of cost."""
import numpy as np
from lamina_autodiff import _default
from lamina_autodiff._default import *
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__contract__ = 1


def grad(fun, argnums=0, **options):
    reverse = _default.grad(fun, argnums, **options)

    def gradient(*args, **kwargs):
        if argnums != 0 or options or kwargs or len(args) != 1 or getattr(args[0], "dtype", None) != np.float32:
            return reverse(*args, **kwargs)
        aval = typeof(args[0])
        basis = np.eye(aval.size, dtype=np.float32).reshape(aval.size, *aval.shape)
        pushed = [_default.jvp(fun, args, (b,)) for b in basis]
        if any(typeof(value).shape or typeof(value).dtype != np.float32 for value, _ in pushed):
            return reverse(*args, **kwargs)
        return lax.reshape(lax.concatenate([lax.reshape(t, (1,)) for _, t in pushed], 0), aval.shape)
    return gradient
