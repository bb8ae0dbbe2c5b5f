"""Errors about traced values recommend functions under the name that the user's module gives to lamina_numpy."""
from __future__ import annotations

import math

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_tracing import jit

VALUES = [1, 2, 3]


@pytest.mark.parametrize("use, words", [
    (lambda x: 1 if x else 2, r"Use jnp.where\(condition, a, b\), or lax.cond"), (lambda x: math.atan(x), "Use jnp.arctan,"),
    (lambda x: VALUES[x], r"Use jnp.take\(values, i\)"), (lambda x: np.asarray(x), "Use jnp.asarray,"),
    (lambda x: min(x, 2), "Use jnp.minimum,"), (lambda x: jnp.zeros(x), "`jnp.zeros` at .* Use a size that is known")])
def test_recommended_function_has_the_users_alias(use, words):
    with pytest.raises(TypeError, match=words):
        jit(use)(1)
