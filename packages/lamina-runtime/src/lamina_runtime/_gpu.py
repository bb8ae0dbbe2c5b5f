"""Finding and loading the CUDA plugin (`jax-cuda13-plugin`, `jax-cuda12-plugin`) without importing jax.

The wheels' own start-up module imports jax, so the shared library is found by its place on disk and registered here.
"""
from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
from typing import Any

from lamina_ir import config

from . import _jaxlib

__all__ = ["found", "make_client"]

_VERSIONS = (13, 12)
# Loaded by hand so that the plugin finds the libraries of the nvidia wheels, which are on no search path. In order of
# need: a later one may ask for an earlier one.
_LIBRARIES = ("libcudart.so.*", "libnvJitLink.so.*", "libnvrtc.so.*", "libcublasLt.so.*", "libcublas.so.*",
              "libnccl.so.*", "libcupti.so.*", "libcusparse.so.*", "libcusolver.so.*", "libcufft.so.*",
              "libnvshmem_host.so.*", "libcudnn.so.*")


def _check_numbers(value: str) -> None:
    if value != "all" and not all(part.strip().isdigit() for part in value.split(",")):
        raise ValueError(f"config cuda_visible_devices: expected 'all' or numbers of GPUs, as '0,2'; got {value!r}")


def _check_options(value: Any) -> None:
    if not (value is None or isinstance(value, dict)
            or (isinstance(value, str) and all(":" in part for part in value.split(";") if part.strip()))):
        raise ValueError("config pjrt_client_create_options: expected a dict of names and values, text as "
                         f"'name:1;other:words', or None; got {value!r:.200}")


cuda_visible_devices = config.Option("cuda_visible_devices", "all", check=_check_numbers,
                                     help="which GPUs this process uses, as '0,2'")
pjrt_client_create_options = config.Option("pjrt_client_create_options", None, check=_check_options, means={"": None},
                                           help="options of the GPU client, as a dict or as 'name:1;other:words'")


@functools.cache
def _plugin() -> tuple[int, str] | None:
    """(CUDA major version, path of the plugin's library) of the first plugin on disk."""
    for version in _VERSIONS:
        try:
            spec = importlib.util.find_spec(f"jax_plugins.xla_cuda{version}")
        except (ImportError, ValueError):
            spec = None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            path = os.path.join(folder, "xla_cuda_plugin.so")
            if os.path.exists(path):
                return version, path
    return None


def found() -> bool:
    """Whether a plugin is installed and a GPU seems to be there."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    return bool(_plugin()) and (os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvidiactl")
                                or os.path.exists("/dev/dxg"))


def _preload() -> None:
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    from glob import glob  # a millisecond of a process without GPUs
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for pattern in _LIBRARIES:
        paths = sorted(p for root in roots for p in glob(os.path.join(root, "*", "lib", pattern)))
        for path in paths[:1]:
            try:
                ctypes.cdll.LoadLibrary(path)
            except OSError:
                pass  # the system's own copy may serve; the plugin says so if not


def _register(version: int, c_api: Any) -> None:
    """Make the plugin's kernels known under the platform CUDA."""
    # one package per CUDA version
    extension = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    xc = _jaxlib.xc
    xc.register_custom_type_handler("CUDA", functools.partial(extension.register_custom_type, c_api))
    xc.register_custom_call_handler("CUDA", functools.partial(extension.register_custom_call_target, c_api))
    for name, kind in extension.ffi_types().items():
        xc.register_custom_type(name, kind, platform="CUDA")
    for name, function in extension.ffi_handlers().items():
        xc.register_custom_call_target(name, function, platform="CUDA", api_version=1)
    for module in ("gpu_solver", "gpu_linalg", "gpu_sparse", "gpu_prng"):
        try:
            registrations = _jaxlib.load(module).registrations()
        except (ImportError, AttributeError):
            continue
        for platform, items in registrations.items():
            for name, capsule, api_version in items:
                xc.register_custom_call_target(name, capsule, platform=platform, api_version=api_version)


def _visible() -> list[int] | None:
    text = cuda_visible_devices.value
    return None if text == "all" else [int(part) for part in text.split(",")]


def _plugin_options() -> dict[str, Any]:
    """What `pjrt_client_create_options` says: a dict, or text as `name:1;other:words`."""
    given = pjrt_client_create_options.value
    if not isinstance(given, str):
        return dict(given or {})
    found: dict[str, Any] = {}
    for part in given.split(";"):
        name, _, text = part.partition(":")
        if name.strip():
            found[name.strip()] = {"true": True, "false": False}.get(text.lower(), int(text) if text.isdigit() else text)
    return found


def _check_version(version: int) -> None:
    """RuntimeError when the plugin is of another version than jaxlib: its kernels are called through private structures."""
    import importlib.metadata  # with zipfile, email and socket: 80 modules that only the GPU needs
    name = f"jax-cuda{version}-plugin"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return  # laid beside us by hand: its maker knows which
    if found.split(".")[:3] != _jaxlib.VERSION.split(".")[:3]:
        raise RuntimeError(f"{name} is {found} but jaxlib is {_jaxlib.VERSION}: both must be of one version; "
                           f"pip install '{name}[with-cuda]=={_jaxlib.VERSION}', or the other way round")


def make_client(distributed: Any = None, node_id: int | None = None, num_nodes: int | None = None,
                visible: list[int] | None = None) -> Any:
    """The GPU client, of all GPUs or of those that are this process's. RuntimeError when no plugin is installed."""
    plugin = _plugin()
    if plugin is None:
        raise RuntimeError("no CUDA plugin is installed; pip install 'jax-cuda13-plugin[with-cuda]' of jaxlib's "
                           f"version, {_jaxlib.VERSION}")
    version, path = plugin
    _check_version(version)
    xc = _jaxlib.xc
    _preload()
    if xc.pjrt_plugin_loaded("cuda"):
        c_api = None
    else:
        c_api = xc.load_pjrt_plugin_dynamically("cuda", path)
        _register(version, c_api)
        _jaxlib.load("_profiler").register_plugin_profiler(c_api)
    if not xc.pjrt_plugin_initialized("cuda"):
        xc.initialize_pjrt_plugin("cuda")
    options = dict(xc.generate_pjrt_gpu_plugin_options())
    options.setdefault("platform_name", "cuda")
    options |= _plugin_options()
    named = _visible()
    visible = visible if named is None else named
    if visible is not None:
        options["visible_devices"] = visible
    if distributed is not None:
        options["node_id"], options["num_nodes"] = node_id, num_nodes
        if "XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE" not in os.environ:
            options["abort_collectives_on_failure"] = True
    return xc.make_c_api_client("cuda", options, distributed)
