"""Errors about traced values name their origin."""
from __future__ import annotations

import linecache
import re

import pytest
from lamina_ir import errors
from lamina_tracing import jit, lax, make_jaxpr


def line_of(text):
    return next(i for i in range(1, 200) if text in linecache.getline(__file__, i))


def branching(x, flag, scale):  # the def
    y = lax.mul(x[0]["w"], scale)
    if lax.gt(y, 0.0):  # the test
        return y
    return flag


def text_of(call, *args, error=errors.ConcretizationError, **kwargs):
    with pytest.raises(error) as found:
        call(*args, **kwargs)
    return str(found.value)


def test_error_names_primitive_function_and_arguments():
    text = text_of(jit(branching), [{"w": 1.0}], 2.0, 3.0, error=errors.TracerBoolError)
    assert f"the result of `gt` at {__file__}:{line_of('the ' + 'test')} (branching)" in text
    place = f"{__file__}:{line_of('the ' + 'def')}"
    assert f"depends on arguments x[0]['w'], scale of `branching` at {place}, traced by jit" in text
    assert "flag" not in text.split("Use ")[0]


def test_keyword_and_static_arguments_keep_their_names():
    assert "on arguments x[0]['w'], scale of" in text_of(jit(branching), [{"w": 1.0}], scale=2.0, flag=1.0,
                                                         error=errors.TracerBoolError)
    f = jit(lambda n, x: float(lax.mul(x, n)), static_argnums=0)
    assert "depends on argument x of `<lambda>`" in text_of(f, 2.0, 1.0)


def test_values_of_enclosing_functions_are_traced_to_their_arguments():
    def outer(n, m):
        return lax.fori_loop(0, 3, lambda i, c: lax.add(c, int(lax.mul(n, i))), m)

    text = text_of(jit(outer), 3, 4, error=errors.TracerIntegerError)
    assert re.search(r"argument \d of `<lambda>` at .*, traced by fori_loop and on argument n of `outer` at .*, traced by jit",
                     text)


CONVERSIONS = [(float, errors.ConcretizationError), (int, errors.TracerIntegerError), (bool, errors.TracerBoolError),
               (complex, errors.ConcretizationError), (range, errors.TracerIntegerError), (hash, TypeError),
               (lambda x: x.item(), errors.ConcretizationError), (lambda x: x.__array__(), errors.TracerArrayError)]


@pytest.mark.parametrize("convert, error", CONVERSIONS)
def test_every_conversion_error_names_origin(convert, error):
    assert "It depends on argument value of `f` at" in text_of(make_jaxpr(call_with_value(convert)), 1, error=error)


def call_with_value(convert):
    def f(value):
        return convert(value)
    return f
