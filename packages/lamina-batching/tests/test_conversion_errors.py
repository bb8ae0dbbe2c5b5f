"""Errors about values of a mapped function name the argument of `vmap`, the user's line and a remedy that fits `vmap`."""
from __future__ import annotations

import re

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import LeakedTracerError, TracerBoolError
from lamina_tracing import jit, lax

X = np.arange(3, dtype=np.float32)


def branch(x, y, z):
    moved = x * 2
    both = moved + y
    if both > 0:
        return z
    return -z


def loop(x):
    while x < 10:
        x = x * 2
    return x


def text_of(call, *args, error=TypeError):
    with pytest.raises(error) as found:
        call(*args)
    text = str(found.value)
    assert "BatchTrace" not in text and "static_argnums" not in text
    return text


def test_condition_of_mapped_value_names_line_arguments_and_remedy():
    text = text_of(vmap(branch), X, X, X, error=TracerBoolError)
    line = branch.__code__.co_firstlineno
    assert text.startswith(f"`if` at {__file__}:{line + 3} (branch) needs a Python truth value")
    assert f"It depends on arguments x, y of `branch` at {__file__}:{line}, mapped by vmap." in text
    assert re.search(r"Use lax.cond, or \S+where .* or do not map x and y \(None in in_axes\)", text)


def test_unmapped_arguments_are_not_named():
    assert "depends on argument x of `branch`" in text_of(vmap(branch, in_axes=(0, None, None)), X, 1.0, 2.0)


def test_loop_over_mapped_value_names_while_loop():
    assert "Use lax.while_loop, or do not map x" in text_of(vmap(loop), X)


def test_leaves_of_mapped_trees_are_named():
    text = text_of(vmap(lambda p: float(p["w"])), {"w": X, "b": X + 1})
    assert "depends on argument p['w'] of `<lambda>`" in text and "in_axes" not in text


@pytest.mark.parametrize("use", [int, float, complex, range, hash, np.asarray, lambda x: f"{x:d}", lambda x: [1, 2, 3][x],
                                 lambda x: [i for i in x], lambda x: x.item(), lambda x: 1 in x])
def test_every_conversion_of_mapped_value_names_the_argument(use):
    assert "It depends on argument value of `f` at" in text_of(vmap(lambda_of(use)), np.arange(3))


def lambda_of(use):
    def f(value):
        return use(value)
    return f


def test_mapped_value_in_jitted_function_names_both_transformations():
    text = text_of(jit(vmap(loop)), X)
    assert "the result of `lt` at" in text and "mapped by vmap and on argument x of `loop`" in text


def test_leaked_mapped_value_names_function_and_holder():
    kept = []
    vmap(lambda x, y: kept.append(lax.sin(x) + y) or x)(X, X + 1)
    text = text_of(lax.cos, kept[0], error=LeakedTracerError)
    assert re.search(r"has ended, that of `<lambda>` at .*, mapped by vmap. It is the result of `add` at "
                     rf"{re.escape(__file__)}:\d+ \(<lambda>\), and depends on arguments x, y of `<lambda>`", text)
    assert f"It was stored in the variable `kept` of an enclosing function at {__file__}:" in text
