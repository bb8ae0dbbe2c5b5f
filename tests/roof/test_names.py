"""Each name on the roof is the object of its home room."""
import importlib

import lamina
import numpy as np
import pytest

SUBMODULES = {"compilation_cache": "lamina_runtime.compilation_cache", "debug": "lamina_tracing.debug",
              "stages": "lamina_runtime.stages",
              "numpy": "lamina_numpy", "random": "lamina_random", "lax": "lamina_tracing.lax",
              "tree_util": "lamina_ir.trees", "flatten_util": "lamina_numpy.flatten_util"}
OWN = {"__version__", "ad_checkpoint", "custom_batching", "custom_derivatives", "dlpack", "dtypes",
       "errors", "tree", "experimental", "float0"}
HOMES = ["lamina_tracing", "lamina_autodiff", "lamina_batching", "lamina_parallel", "lamina_runtime", "lamina_ir",
         "lamina_ir.trees"]


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_hold_the_home_rooms_objects(name):
    roof, home = importlib.import_module(f"lamina.{name}"), importlib.import_module(SUBMODULES[name])
    assert set(roof.__all__) == set(home.__all__)
    for n in home.__all__:
        assert getattr(roof, n) is getattr(home, n), n


def test_top_level_names_are_at_home_somewhere():
    homes = [importlib.import_module(h) for h in HOMES]
    for name in lamina.__all__:
        if name in SUBMODULES or name in OWN:
            continue
        assert any(getattr(h, name, None) is getattr(lamina, name) for h in homes), name


def test_all_is_what_the_module_shows():
    shown = {n for n in vars(lamina) if not n.startswith("_") and n not in ("lib", "tools", "test_util")}
    assert shown <= set(lamina.__all__)


def test_short_names_of_tree_functions():
    for name in lamina.tree.__all__:
        assert getattr(lamina.tree, name) is getattr(lamina.tree_util, f"tree_{name}")


def test_errors_under_the_names_older_programs_catch():
    uses = {"TracerBoolConversionError": lambda x: 1 if x else 0, "TracerIntegerConversionError": range,
            "TracerArrayConversionError": np.sin, "ConcretizationTypeError": float,
            "NonConcreteBooleanIndexError": lambda x: lamina.numpy.arange(3)[lamina.numpy.arange(3) > x]}
    for name, use in uses.items():
        with pytest.raises(getattr(lamina.errors, name)):
            lamina.jit(use)(1)
    leaked = []
    lamina.jit(lambda x: leaked.append(x))(1)
    with pytest.raises(lamina.errors.UnexpectedTracerError):
        lamina.numpy.sin(leaked[0])
    home = importlib.import_module("lamina_ir.errors")
    assert set(home.__all__) <= set(lamina.errors.__all__)


def test_arrays_from_other_libraries():
    assert lamina.dlpack.from_dlpack(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]


def test_older_homes_of_names():
    from lamina.lib import xla_bridge
    from lamina.tools import colab_tpu
    assert xla_bridge.get_backend().platform == "cpu" and callable(colab_tpu.setup_tpu)
