"""Types and values over `Explicit` mesh axes: the types and refusals of JAX, and the values of the unsharded run."""
import json
import sys
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina.sharding import AxisType, NamedSharding, PartitionSpec, set_mesh

sys.path.insert(0, str(Path(__file__).parent))

import cases  # noqa: E402

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
# Cases whose sums XLA forms in another order if the operands are sharded.
REORDERED = ("softmax", "jit grads dot", "gradient ")
# JAX refuses these gradients, or their functions: sizes do not fit its algorithm, or it requires equal shardings.
COMPUTED = tuple([f"gradient {name} " for name in ("dynamic_update_slice", "kernel", "reduce", "scatter", "select")])


@pytest.fixture(scope="module")
def mesh():
    return lamina.make_mesh((4, 2), ("x", "y"), axis_types=AxisType.Explicit)


def value(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def describe(f, *args):
    try:
        return lamina.tree_util.tree_leaves(f(*args))
    except (TypeError, ValueError) as error:
        return Exception(str(error))  # without the frames of the call, which keep its jitted functions alive


def needs_a_mesh(name):
    first = name.removeprefix("gradient ").split(" ")[0]
    return first in ("typeof", "out", "auto_axes", "reshard", "zeros", "ones", "full", "arange", "iota")


@pytest.fixture(scope="module")
def sharded(mesh):
    with set_mesh(mesh):
        return cases.run_all(lamina, lambda shape, spec: lamina.device_put(
            value(shape), NamedSharding(mesh, PartitionSpec(*spec))), describe)


@pytest.fixture(scope="module")
def plain():
    return cases.run_all(lamina, lambda shape, spec: lamina.numpy.array(value(shape)), describe)


@pytest.mark.parametrize("name", RECORDED)
def test_type_or_refusal_is_that_of_jax(name, sharded):
    found = sharded[name]
    if name.startswith("typeof "):
        assert found == RECORDED[name]
        return
    types = None if isinstance(found, Exception) else [str(lamina.typeof(x)) for x in found]
    assert types == RECORDED[name] or RECORDED[name] is None and name.startswith(COMPUTED), found


@pytest.mark.parametrize("name", [name for name in RECORDED if not needs_a_mesh(name)])
def test_values_equal_the_unsharded_run(name, sharded, plain):
    if isinstance(sharded[name], Exception):
        return
    for found, wanted in zip(sharded[name], plain[name], strict=True):
        if name.startswith(REORDERED):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-4)
        else:
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
