"""Each name of the umbrella package is the object of its own package."""
import importlib
import subprocess
import sys
from types import ModuleType

import lamina
import numpy as np
import pytest

SUBMODULES = {"monitoring": "lamina_ir.monitoring", "extend.ffi": "lamina_runtime.ffi",
              "extend.random": "lamina_random.extend",
              "extend.linear_util": "lamina_tracing.linear_util",
              "dlpack": "lamina_runtime.dlpack",
              "compilation_cache": "lamina_runtime.compilation_cache", "debug": "lamina_tracing.debug",
              "stages": "lamina_runtime.stages",
              "distributed": "lamina_distributed", "distributed.ray": "lamina_distributed.ray", "launch": "lamina_distributed.launch",
              "profiler": "lamina_runtime.profiler",
              "experimental.multihost_utils": "lamina_distributed.multihost_utils", "experimental.ode": "lamina_scipy.ode",
              "experimental.mesh_utils": "lamina_runtime.mesh_utils", "experimental.pjit": "lamina_runtime.pjit",
              "experimental.checkpointing": "lamina_checkpoint",
              "experimental.array_serialization": "lamina_checkpoint.array_serialization",
              **{f"experimental.array_serialization.{name}": f"lamina_checkpoint.array_serialization.{name}"
                 for name in ("serialization", "tensorstore_impl", "pytree_serialization")},
              "experimental.host_callback": "lamina_runtime.host_callback", "experimental.layout": "lamina_runtime.layout",
              "memory": "lamina_runtime.memory",
              "experimental.serialize_executable": "lamina_runtime.serialize_executable",
              "numpy": "lamina_numpy", "numpy.fft": "lamina_numpy.fft", "numpy.linalg": "lamina_numpy.linalg",
              "image": "lamina_numpy.image", "ops": "lamina_numpy.ops",
              "random": "lamina_random", "export": "lamina_export", "experimental.export": "lamina_export",
              "nn": "lamina_nn", "nn.initializers": "lamina_nn.initializers",
              "example_libraries.optimizers": "lamina_nn.optimizers", "example_libraries.stax": "lamina_nn.stax",
              "experimental.rnn": "lamina_nn.rnn", "experimental.jet": "lamina_jet", "experimental.checkify": "lamina_checkify",
              "ref": "lamina_refs", "replay": "lamina_see.replay",
              "experimental.pallas": "lamina_pallas", "experimental.pallas.tpu": "lamina_pallas.tpu",
              "experimental.pallas.triton": "lamina_pallas.triton",
              "experimental.sparse": "lamina_sparse", "experimental.sparse.linalg": "lamina_sparse.linalg",
              "lax": "lamina_tracing.lax",
              "lax.linalg": "lamina_tracing.lax.factorizations", "extend.core.primitives": "lamina_tracing.primitives",
              "experimental.compilation_cache": "lamina_runtime.compilation_cache",
              "experimental.compilation_cache.compilation_cache": "lamina_runtime.compilation_cache",
              "tree_util": "lamina_ir.trees", "flatten_util": "lamina_numpy.flatten_util"}
# Modules with names of several packages, or some names of one.
GATHERED = {"ad_checkpoint": ["lamina_autodiff", "lamina_ir.prims"], "custom_transpose": ["lamina_autodiff"],
            "custom_batching": ["lamina_batching"],
            "custom_derivatives": ["lamina_autodiff", "lamina_autodiff.extend", "lamina_ir.prims"],
            "dtypes": ["lamina_ir.dtypes", "lamina_ir._types.result_type"],
            "errors": ["lamina_ir.errors", "lamina_export"], "example_libraries": [], "experimental": ["lamina_tracing"],
            "experimental.maps": ["lamina_parallel"],
            "experimental.key_reuse": ["lamina_ir.errors"],
            "experimental.shard_map": ["lamina_parallel"],
            "experimental.x64_context": ["lamina_tracing"], "lib": [], "lib.xla_bridge": ["lamina_runtime"],
            "parallel": ["lamina_parallel"], "scipy": [],
            "sharding": ["lamina_runtime", "lamina_parallel", "lamina_runtime.visualizing"],
            "test_util": ["lamina_autodiff.testing"], "tools": [],
            "tools.colab_tpu": ["lamina_runtime"], "tree": ["lamina_ir.trees"], "typing": ["lamina_tracing"],
            "extend": [], "extend.backend": ["lamina_runtime"],
            "extend.core": ["lamina_ir", "lamina_tracing.lax", "lamina_tracing.extend"],
            "lax": ["lamina_tracing.lax", "lamina_autodiff", "lamina_tracing.primitives"]}
OWN = {"P", "Ref", "ds", "empty_ref", "free_ref", "freeze", "new_ref", "as_jax", "__version__", "float0"}


def _module_paths(home):
    """Yield the dotted paths of the modules in a module's `__all__`, recursively."""
    for name in importlib.import_module(home).__all__:
        if isinstance(getattr(importlib.import_module(home), name), ModuleType):
            yield f"{home}.{name}"
            yield from _module_paths(f"{home}.{name}")


SUBMODULES |= {path.replace("lamina_scipy", "scipy"): path for path in _module_paths("lamina_scipy")}
HOMES = ["lamina_tracing", "lamina_autodiff", "lamina_batching", "lamina_parallel", "lamina_runtime", "lamina_ir",
         "lamina_ir.trees", "lamina_ir.config", "lamina_ir.layers", "lamina_runtime.serialize_executable", "lamina_see"]


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_reexport_the_objects_of_their_package(name):
    module, home = importlib.import_module(f"lamina.{name}"), importlib.import_module(SUBMODULES[name])
    assert set(module.__all__) >= set(home.__all__)
    for n in home.__all__:
        if isinstance(getattr(home, n), ModuleType):  # the same names under the umbrella package's path
            assert getattr(module, n).__name__ == f"lamina.{name}.{n}" and f"{name}.{n}" in SUBMODULES
        else:
            assert getattr(module, n) is getattr(home, n), n


@pytest.mark.parametrize("name", GATHERED)
def test_gathered_names_are_objects_of_a_package(name):
    module, homes = importlib.import_module(f"lamina.{name}"), [importlib.import_module(h) for h in GATHERED[name]]
    for n in module.__all__:
        value = getattr(module, n)
        assert isinstance(value, ModuleType) or any(value in vars(home).values() for home in homes), n


def submodules(module):
    """Yield (path, module) of every module that is reachable by attributes from `module`."""
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and not name.startswith(("_", "@")):  # "@": pytest's own
            yield f"{module.__name__}.{name}", value
            if value is not lamina.config:  # the settings are an object that happens to be a module
                yield from submodules(value)


def test_every_module_attribute_imports_by_its_dotted_path():
    found = dict(submodules(lamina))
    assert {f"lamina.{name}" for name in (*SUBMODULES, *GATHERED, "config", "as_jax")} == set(found)
    for path, module in found.items():
        assert importlib.import_module(path) is module is sys.modules[path], path
        assert module.__name__ == path or module is lamina.config, path
        assert all(hasattr(module, name) for name in module.__all__), path


@pytest.mark.parametrize("line", [
    "import lamina.numpy.linalg as jla; jla.norm", "import lamina.numpy.fft; lamina.numpy.fft.fft",
    "from lamina.lax import linalg; linalg.cholesky", "import lamina.lax.linalg as ll; ll.qr",
    "from lamina.experimental.compilation_cache import compilation_cache as cc; cc.set_cache_dir",
    "from lamina.example_libraries import optimizers, stax; stax.Dense, optimizers.adam",
    "from lamina.example_libraries.stax import Dense, Relu, serial; import lamina; lamina.experimental.rnn.lstm",
    "from lamina.experimental.maps import xmap; import lamina_parallel; assert lamina_parallel.xmap is xmap",
    "import lamina; lamina.profiler.trace, lamina.distributed.initialize, lamina.sharding.SingleDeviceSharding",
    "import lamina; lamina.test_util.check_grads, lamina.lib.xla_bridge.get_backend",
    "from lamina.config import config; import lamina; assert config is lamina.config; config.update('jax_enable_x64', True)",
    "from lamina.typing import Array, ArrayLike, DTypeLike", "from lamina import *; typing.Array, errors.ShapeError"])
def test_dotted_paths_are_importable(line):
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_missing_package_of_an_extra_is_named():
    for name in ("checkpointing", "array_serialization"):
        code = f"import sys\nsys.modules['lamina_checkpoint'] = None\nfrom lamina.experimental import {name}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"ImportError: lamina.experimental.{name} needs the package lamina-checkpoint: pip install" in done.stderr


def test_missing_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'lamina' has no attribute 'gradd'"):
        lamina.gradd


def test_top_level_names_are_objects_of_a_package():
    homes = [importlib.import_module(h) for h in HOMES]
    for name in lamina.__all__:
        if name in SUBMODULES or name in GATHERED or name in OWN:
            continue
        assert any(getattr(h, name, None) is getattr(lamina, name) for h in homes), name


def test_dir_equals_all():
    assert {n for n in dir(lamina) if not n.startswith("_")} | {"__version__"} == set(lamina.__all__)


def test_short_names_of_tree_functions():
    for name in lamina.tree.__all__:
        long = "static" if name == "static" else f"tree_{name}"
        assert getattr(lamina.tree, name) is getattr(lamina.tree_util, long)


def test_error_names_of_jax_are_caught():
    uses = {"TracerBoolConversionError": lambda x: 1 if x else 0, "TracerIntegerConversionError": range,
            "TracerArrayConversionError": np.asarray, "ConcretizationTypeError": float,
            "NonConcreteBooleanIndexError": lambda x: lamina.numpy.arange(3)[lamina.numpy.arange(3) > x]}
    for name, use in uses.items():
        with pytest.raises(getattr(lamina.errors, name)):
            lamina.jit(use)(1)
    leaked = []
    lamina.jit(lambda x: leaked.append(x))(1)
    with pytest.raises(lamina.errors.UnexpectedTracerError):
        lamina.numpy.sin(leaked[0])
    home = importlib.import_module("lamina_ir.errors")
    assert set(home.__all__) - {"mark_builtin_error"} <= set(lamina.errors.__all__)


def test_from_dlpack_of_a_numpy_array():
    assert lamina.dlpack.from_dlpack(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]


def test_primitives_are_available_by_name():
    ops = importlib.import_module("lamina_tracing.primitives")
    assert {n for n in lamina.lax.__all__ if n.endswith("_p")} == {n for n in ops.__all__ if n.endswith("_p")}
    assert lamina.lax.add_p is lamina.make_jaxpr(lamina.lax.add)(1, 2).eqns[0].primitive


def test_older_module_paths():
    from lamina.lib import xla_bridge
    from lamina.tools import colab_tpu
    assert xla_bridge.get_backend().platform == "cpu" and callable(colab_tpu.setup_tpu)
