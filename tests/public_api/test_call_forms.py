"""Calls of public functions that JAX 0.4.30 accepts are accepted, with the same meaning (`call_forms.py`).

A fourth of them runs; all of them if LAMINA_LAWS is set.
"""
import json
import os
import re
from pathlib import Path

import call_forms
import pytest

ACCEPTED = json.loads(Path(__file__).with_name("call_forms.json").read_text(encoding="utf-8"))
# Intentional differences, with reasons.
NAME = "any hashable value except an integer is the name of a mapped axis"
ABSTRACT = "an abstract kind is not a dtype: NumPy deprecates JAX's behaviour"
NOTHING = "None is not a number: NumPy makes an object of it, JAX (deprecated) nan"
INTEGERS = "integers stay integers, as in NumPy 2.1"
WEAK = "weak types follow one rule: results of Python numbers only are weak, those of comparisons never"
DIFFERENT = {
    "jnp.sort(A, axis=1.0)": NAME, "jnp.argsort(A, axis=1.0)": NAME, "jnp.diff(A, axis=1.0)": NAME,
    "jnp.cumsum(A, dtype=bool)": "booleans cannot represent a cumulative sum",
    "jnp.asarray(None)": NOTHING, "jnp.asarray([None])": NOTHING, "jnp.array(None)": NOTHING, "jnp.array([None])": NOTHING,
    "jnp.take(V6, True)": "a boolean is not an index, as in NumPy",
    "jnp.zeros(2, dtype=np.floating)": ABSTRACT, "jnp.arange(2, dtype=np.floating)": ABSTRACT,
    "jnp.array([1, 2], dtype=np.floating)": ABSTRACT, "jnp.asarray(A, np.floating)": ABSTRACT,
    "J.astype(np.floating)": ABSTRACT, "jnp.zeros_like(A, dtype=np.floating)": ABSTRACT,
    "jnp.nansum(A, axis=1.0)": NAME, "jnp.nanmax(A, axis=1.0)": NAME, "jnp.nanmean(A, axis=1.0)": NAME,
    "jnp.median(A, axis=1.0)": NAME, "jnp.count_nonzero(A, axis=1.0)": NAME, "jnp.column_stack([None])": NOTHING,
    "jnp.vstack([None])": NOTHING, "jnp.dstack([None])": NOTHING, "jnp.hstack([None])": NOTHING,
    "jnp.shape('a')": "a string is not an array", "jnp.shape(Holder())": "an object with __jax_array__ is an array here too",
    "jnp.ndim('a')": "a string is not an array", "jnp.ndim(Holder())": "an object with __jax_array__ is an array here too",
    "jnp.size('a')": "a string is not an array", "jnp.size(Holder())": "an object with __jax_array__ is an array here too",
    "jnp.std(A, dtype=complex)": "a standard deviation is real",
    "jnp.floor(np.arange(3))": INTEGERS, "jnp.floor(True)": INTEGERS, "jnp.floor(np.int64(7))": INTEGERS,
    "jnp.isnan(1.5)": WEAK, "jnp.isnan(1 + 2j)": WEAK, "jnp.equal(1.5, 2)": WEAK, "jnp.equal(True, 2)": WEAK,
    "jnp.power(True, 2)": WEAK, "jnp.floor_divide(1.5, 2)": WEAK, "jnp.unravel_index(5, (2, 3))": WEAK, "jax.nn.gelu(1)": WEAK,
    "jnp.promote_types(float, complex)": "64-bit dtypes need enable_x64, here too",
    "jnp.partition(V6, 2)": "the order within the parts is unspecified",
    "jax.lax.stop_gradient(1.)": "every number becomes an array",
    "jax.jit(lambda x: x, None)(V6)": "options are keyword-only, to avoid mistakes",
}


@pytest.fixture(scope="module")
def scope():
    return call_forms.names("lamina")


@pytest.mark.parametrize("part", range(8))
def test_forms_of_jax_have_the_same_results(scope, part):
    wide = "LAMINA_LAWS" in os.environ
    forms = [form for i, form in enumerate(ACCEPTED) if i % 8 == part and (wide or i % 32 // 8 == part % 4)]
    found = {form: call_forms.evaluate(form, scope) for form in forms if form not in DIFFERENT}
    assert found == {form: ACCEPTED[form] for form in found}


def test_every_listed_difference_is_a_form_of_jax():
    assert set(DIFFERENT) <= set(ACCEPTED)


# Errors that a strict setting may raise for the user's call itself, as a test of the form and the result.
STRICT = {
    "numpy_rank_promotion": ("raise", lambda form, other: "broadcast_shapes" in form),
    "numpy_dtype_promotion": ("strict", lambda form, other: "TypeError" in other and MIXED.search(form)),
    "check_tracer_leaks": (True, lambda form, other: False), "enable_checks": (True, lambda form, other: False),
    "debug_nans": (True, lambda form, other: "FloatingPointError" in other),
    "debug_infs": (True, lambda form, other: "FloatingPointError" in other)}
# Forms with arguments of two kinds, such as booleans with integers, or with dtype names.
MIXED = re.compile(r"int8|True|np\.int64|, 1\.5|\[1\., 2\.\]|result_type|promote_types|, 1\.0|astype")


@pytest.mark.usefixtures("small_heap")
@pytest.mark.slow
@pytest.mark.parametrize("setting", STRICT)
def test_strict_settings_do_not_affect_library_code(scope, setting):
    import lamina
    value, is_expected = STRICT[setting]
    every = 1 if "LAMINA_LAWS" in os.environ else 12 if setting == "check_tracer_leaks" else 6  # it collects garbage
    forms = [form for i, form in enumerate(ACCEPTED) if i % every == len(setting) % every]
    usual = {form: call_forms.evaluate(form, scope) for form in forms}
    with getattr(lamina, setting)(value):
        strict = {form: call_forms.evaluate(form, scope) for form in forms}
    assert not [f"{form}: {strict[form]}" for form in forms if strict[form] != usual[form]
                and not is_expected(form, str(strict[form]))]
