"""The only module that imports jaxlib: its MLIR bindings, loaded at the first lowering, and differences between its
versions.

No context, location or insertion point is ever entered: every call passes its own. A context that is still entered when
the interpreter exits aborts the process, and entering costs time on each lowering.
"""
from __future__ import annotations

import importlib
import io
import sys
from types import ModuleType
from typing import Any
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from lamina_ir import ShapedArray

from ._typing import IrContext, IrModule, MlirModule, XlaComputation

__all__ = ["add_shardy", "dot_graph", "hlo_computation", "ir", "load_mlir", "new_context",
           "portable_artifact", "read_bytecode", "write_bytecode"]

ir: MlirModule = None  # jaxlib.mlir.ir, once loaded


def _load(name: str) -> Any:
    """Import a module of jaxlib when it is first needed.

    Importing the MLIR bindings takes time, and the client modules are only used by tests and HLO conversions.
    """
    return importlib.import_module(f"jaxlib.{name}")


def load_mlir() -> MlirModule:
    """Return `jaxlib.mlir.ir`; the first call imports it."""
    global ir
    if ir is None:
        try:
            loaded = _load("mlir.ir")
        except ImportError as e:
            raise ImportError("lamina_lowering needs jaxlib >= 0.10.2, < 0.13; install lamina-lowering with its "
                              "dependencies") from e
        _skip_builders()
        ir = loaded
    return ir


def _skip_builders() -> None:
    """Prevent the bindings from importing the dialects' Python builders, which takes time and is not needed.

    They would be imported when the first value or attribute of a dialect is seen. Importing `jaxlib.mlir.dialects` by
    name still works.
    """
    known: Any = getattr(_load("mlir._mlir_libs._mlir"), "globals", None)
    if not hasattr(known, "dialect_search_modules") or not hasattr(known, "_check_dialect_module_loaded"):
        return
    here = __name__ + "_no_builders"
    names = [f"{here}.{dialect}" for dialect in ("builtin", "func", "stablehlo", "chlo", "sdy")]
    places = known.dialect_search_modules
    sys.modules.update((name, ModuleType(name)) for name in names)
    try:
        known.dialect_search_modules = [here]
        for name in names:
            known._check_dialect_module_loaded(name.rpartition(".")[2])
    finally:
        known.dialect_search_modules = places
        for name in names:
            del sys.modules[name]


def new_context() -> IrContext:
    """Make an MLIR context.

    Returns:
      An `ir.Context` with func, stablehlo and chlo loaded, without their generated Python builders.

    >>> new_context().get_dialect_descriptor("stablehlo").namespace
    'stablehlo'
    """
    mlir = load_mlir()
    context = mlir.Context()
    registry = mlir.DialectRegistry()
    _load("mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in ("_stablehlo", "_chlo"):
        _load(f"mlir._mlir_libs.{dialect}").register_dialect(context)
    context.get_dialect_descriptor("func")  # loads it; `context.dialects["func"]` would import its Python builders
    context.enable_multithreading(False)
    return context


def add_shardy(context: IrContext) -> None:
    """Load the dialect of manual regions into a context."""
    _load("mlir._mlir_libs._sdy").register_dialect(context)


def write_bytecode(module: IrModule) -> bytes:
    """Serialize a module to MLIR bytecode, which the compiler parses fastest."""
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    return out.getvalue()


def read_bytecode(bytecode: bytes, context: IrContext) -> IrModule:
    """Parse bytecode into a module of a context."""
    return load_mlir().Module.parse(bytecode, context)


def portable_artifact(bytecode: bytes) -> bytes:
    """Return a StableHLO module in the portable form, which later and, within limits, earlier versions can read.

    Raises:
      ValueError: it contains operations without a portable form, as those of Shardy.
    """
    stablehlo = _load("mlir._mlir_libs._stablehlo")
    return stablehlo.serialize_portable_artifact_str(bytecode, stablehlo.get_current_version())


def hlo_computation(bytecode: bytes, tuple_args: bool = False, return_tuple: bool = False) -> XlaComputation:
    """Return the `XlaComputation` of a StableHLO module."""
    return _load("_jax").mlir.mlir_module_to_xla_computation(bytecode, use_tuple_args=tuple_args, return_tuple=return_tuple)


def dot_graph(module: object) -> str:
    """Return the Graphviz text of an `HloModule`."""
    return _load("_hlo").hlo_module_to_dot_graph(module)


# --- for tests: running a module without the runtime ------------------------------------------------------------------
_clients: dict[int, Any] = {}


def cpu_client(devices: int) -> Any:
    """Return a separate CPU client with `devices` devices."""
    client = _clients.get(devices)
    if client is None:
        client = _clients[devices] = _load("xla_client").make_cpu_client(num_devices=devices)
    return client


def register_kernel_libraries(needs: Iterable[str]) -> None:
    """Register the kernel libraries that a lowered program needs."""
    if "lapack" in needs and not _provided:
        lapack, xc = _load("lapack"), _load("xla_client")
        for platform, targets in lapack.registrations().items():
            for name, function, version in targets:
                xc.register_custom_call_target(name, function, platform=platform, api_version=version)
        lapack._lapack.initialize()
        _provided.add("lapack")


_provided: set[str] = set()


def register_kernels(kernels: Mapping[str, object]) -> None:
    """Register FFI kernels, name -> capsule, with CPU clients."""
    for name, capsule in kernels.items():
        _load("xla_client").register_custom_call_target(name, capsule, platform="cpu", api_version=1)


def run_on_cpu(program: IrModule | bytes, grid: tuple[int, int], shardy: bool, per_device: list[list[np.ndarray]],
               avals: list[ShapedArray], host_functions: list[Callable[..., Any]],
               results: int) -> tuple[list[list[np.ndarray]], list[str] | None]:
    """Compile and run a program; `per_device[d]` has device d's part of each argument.

    Returns the parts of the results in the same form, and the text of the tiles of each result if the compiler chose
    them.
    """
    xc = _load("xla_client")
    n = len(per_device)
    client = cpu_client(8 if n > 1 else 1)
    devices = client.local_devices()[:n]
    device_list = xc.DeviceList(tuple(devices))
    options = xc.CompileOptions()
    options.num_replicas, options.num_partitions = grid
    options.device_assignment = xc.DeviceAssignment.create(np.arange(n, dtype=np.int32).reshape(grid))
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = grid
    if grid[1] > 1:
        build.use_spmd_partitioning, build.use_shardy_partitioner = True, shardy
        build.allow_spmd_sharding_propagation_to_output = [True] * results
    more = (host_functions,) if host_functions else ()
    executable = client.compile_and_load(program, device_list, options, *more)
    xc.GSPMDSharding.memory_kind = None
    xc.GSPMDSharding._to_xla_hlo_sharding = lambda self, ndim: self._hlo_sharding
    # one array per argument: device d's part is row d of it, split over the devices
    arrays = []
    for i, aval in enumerate(avals):
        pieces = [np.asarray(args[i], aval.dtype) for args in per_device]
        whole = type(aval)((n, *pieces[0].shape), aval.dtype) if n > 1 else aval
        spec = xc.HloSharding.iota_tile([n] + [1] * len(aval.shape)) if n > 1 else xc.HloSharding.replicate()
        if n > 1:
            pieces = [p[None] for p in pieces]
        sharding = xc.GSPMDSharding(device_list, spec)
        arrays.append(_load("_jax").batched_device_put(whole, sharding, pieces, devices, committed=True, force_copy=True,
                                              enable_x64=True))
    outs = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    found = executable.get_output_shardings() if grid[1] > 1 else None
    tiles = None if found is None else [str(xc.HloSharding.from_proto(p)) for p in found]
    return [[out[d]._single_device_array_to_np_array_did_copy()[0] for out in outs] for d in range(n)], tiles
