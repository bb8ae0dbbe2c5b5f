"""Forms in which people call public functions: what JAX 0.4.30 takes is taken, and means the same (`call_forms.py`).

A fourth of them is tried; LAMINA_LAWS set, all of them.
"""
import json
import os
import re
from pathlib import Path

import call_forms
import pytest

TAKEN = json.loads(Path(__file__).with_name("call_forms.json").read_text(encoding="utf-8"))
# What is told otherwise on purpose, and why.
NAME = "any hashable value but an integer is the name of a mapped axis"
ABSTRACT = "an abstract kind is no dtype: NumPy deprecates what JAX does with it"
NOTHING = "None is no number: NumPy makes an object of it, JAX (deprecated) nan"
INTEGERS = "integers stay integers, as in NumPy 2.1"
WEAK = "weakness follows one rule: of Python numbers alone comes a weak result, of comparisons never"
OTHERWISE = {
    "jnp.sort(A, axis=1.0)": NAME, "jnp.argsort(A, axis=1.0)": NAME, "jnp.diff(A, axis=1.0)": NAME,
    "jnp.cumsum(A, dtype=bool)": "booleans hold no running total",
    "jnp.asarray(None)": NOTHING, "jnp.asarray([None])": NOTHING, "jnp.array(None)": NOTHING, "jnp.array([None])": NOTHING,
    "jnp.take(V6, True)": "a boolean is no index, as in NumPy",
    "jnp.zeros(2, dtype=np.floating)": ABSTRACT, "jnp.arange(2, dtype=np.floating)": ABSTRACT,
    "jnp.array([1, 2], dtype=np.floating)": ABSTRACT, "jnp.asarray(A, np.floating)": ABSTRACT,
    "J.astype(np.floating)": ABSTRACT, "jnp.zeros_like(A, dtype=np.floating)": ABSTRACT,
    "jnp.nansum(A, axis=1.0)": NAME, "jnp.nanmax(A, axis=1.0)": NAME, "jnp.nanmean(A, axis=1.0)": NAME,
    "jnp.median(A, axis=1.0)": NAME, "jnp.count_nonzero(A, axis=1.0)": NAME, "jnp.column_stack([None])": NOTHING,
    "jnp.vstack([None])": NOTHING, "jnp.dstack([None])": NOTHING, "jnp.hstack([None])": NOTHING,
    "jnp.shape('a')": "a text is no array", "jnp.shape(Holder())": "what stands for an array is one here too",
    "jnp.ndim('a')": "a text is no array", "jnp.ndim(Holder())": "what stands for an array is one here too",
    "jnp.size('a')": "a text is no array", "jnp.size(Holder())": "what stands for an array is one here too",
    "jnp.std(A, dtype=complex)": "a spread is real",
    "jnp.floor(np.arange(3))": INTEGERS, "jnp.floor(True)": INTEGERS, "jnp.floor(np.int64(7))": INTEGERS,
    "jnp.isnan(1.5)": WEAK, "jnp.isnan(1 + 2j)": WEAK, "jnp.equal(1.5, 2)": WEAK, "jnp.equal(True, 2)": WEAK,
    "jnp.power(True, 2)": WEAK, "jnp.floor_divide(1.5, 2)": WEAK, "jnp.unravel_index(5, (2, 3))": WEAK, "jax.nn.gelu(1)": WEAK,
    "jnp.promote_types(float, complex)": "64-bit dtypes need enable_x64, here too",
    "jnp.partition(V6, 2)": "the order within the parts is not said",
    "jax.lax.stop_gradient(1.)": "an array comes of every number",
    "jax.jit(lambda x: x, None)(V6)": "what follows the function is given by name, so that no argument is taken for another",
}


@pytest.fixture(scope="module")
def scope():
    return call_forms.names("lamina")


@pytest.mark.parametrize("part", range(8))
def test_what_jax_takes_is_taken_and_means_the_same(scope, part):
    wide = "LAMINA_LAWS" in os.environ
    forms = [form for i, form in enumerate(TAKEN) if i % 8 == part and (wide or i % 32 // 8 == part % 4)]
    found = {form: call_forms.said(form, scope) for form in forms if form not in OTHERWISE}
    assert found == {form: TAKEN[form] for form in found}


def test_every_exception_is_of_a_form_that_jax_takes():
    assert set(OTHERWISE) <= set(TAKEN)


# What a strict setting of the user's says of the form itself, not of how it is computed: a text that holds these.
STRICT = {
    "numpy_rank_promotion": ("raise", lambda form, other: "broadcast_shapes" in form),
    "numpy_dtype_promotion": ("strict", lambda form, other: "TypeError" in other and MIXED.search(form)),
    "check_tracer_leaks": (True, lambda form, other: False), "enable_checks": (True, lambda form, other: False),
    "debug_nans": (True, lambda form, other: "FloatingPointError" in other),
    "debug_infs": (True, lambda form, other: "FloatingPointError" in other)}
# Arguments of two kinds, booleans beside integers and texts of dtypes among them.
MIXED = re.compile(r"int8|True|np\.int64|, 1\.5|\[1\., 2\.\]|result_type|promote_types|, 1\.0|astype")


@pytest.mark.slow
@pytest.mark.parametrize("setting", STRICT)
def test_strict_settings_strike_what_the_user_says_alone(scope, setting):
    import lamina
    value, meant = STRICT[setting]
    forms = [form for i, form in enumerate(TAKEN) if "LAMINA_LAWS" in os.environ or i % 6 == len(setting) % 6]
    usual = {form: call_forms.said(form, scope) for form in forms}
    with getattr(lamina, setting)(value):
        strict = {form: call_forms.said(form, scope) for form in forms}
    assert not [f"{form}: {strict[form]}" for form in forms if strict[form] != usual[form]
                and not meant(form, str(strict[form]))]
