"""Find and load the CUDA plugin (`jax-cuda13-plugin`, `jax-cuda12-plugin`) without importing jax.

The plugin's own `__init__` imports jax. So the shared library is located on disk and registered here.
"""
from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
from typing import Any

from lamina_ir import config

from .. import _jaxlib
from .._typing import Client, CoordinationClient, SettingValue

__all__ = ["is_available", "make_client"]

_VERSIONS = (13, 12)
# Preloaded, because the libraries of the nvidia wheels are on no search path. In dependency order: a library may link
# to earlier ones.
_LIBRARIES = ("libcudart.so.*", "libnvJitLink.so.*", "libnvrtc.so.*", "libcublasLt.so.*", "libcublas.so.*",
              "libnccl.so.*", "libcupti.so.*", "libcusparse.so.*", "libcusolver.so.*", "libcufft.so.*",
              "libnvshmem_host.so.*", "libcudnn.so.*")


def _check_device_numbers(value: str) -> None:
    if value != "all" and not all(part.strip().isdigit() for part in value.split(",")):
        raise ValueError(f"config cuda_visible_devices: expected 'all' or numbers of GPUs, as '0,2'; got {value!r}")


def _check_options(value: SettingValue) -> None:
    if not (value is None or isinstance(value, dict)
            or (isinstance(value, str) and all(":" in part for part in value.split(";") if part.strip()))):
        raise ValueError("config pjrt_client_create_options: expected a dict of names and values, text as "
                         f"'name:1;other:text', or None; got {value!r:.200}")


cuda_visible_devices = config.Option("cuda_visible_devices", "all", check=_check_device_numbers,
                                     help="which GPUs this process uses, as '0,2'")
pjrt_client_create_options = config.Option("pjrt_client_create_options", None, check=_check_options, means={"": None},
                                           help="options of the GPU client, as a dict or as 'name:1;other:text'")


@functools.cache
def _plugin() -> tuple[int, str] | None:
    """Return (CUDA major version, path of the plugin's library) for the first plugin found on disk."""
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


def is_available() -> bool:
    """Return whether a plugin is installed and the machine seems to have a GPU."""
    # The usual way to hide all GPUs from a program.
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    return bool(_plugin()) and (os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvidiactl")
                                or os.path.exists("/dev/dxg"))


def _preload() -> None:
    """Load the CUDA libraries of the nvidia wheels."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    from glob import glob  # noqa: PLC0415 (imported late: it costs a process without GPUs a millisecond)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for pattern in _LIBRARIES:
        paths = sorted(p for root in roots for p in glob(os.path.join(root, "*", "lib", pattern)))
        for path in paths[:1]:
            try:
                ctypes.cdll.LoadLibrary(path)
            except OSError:
                pass  # the system's copy may work; otherwise the plugin reports the missing library


def _register(version: int, c_api: Any) -> None:
    """Register the plugin's kernels and types for the platform CUDA."""
    # The plugin has one package per CUDA version.
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
            registrations = _jaxlib.import_submodule(module).registrations()
        except (ImportError, AttributeError):
            continue
        for platform, items in registrations.items():
            for name, capsule, api_version in items:
                xc.register_custom_call_target(name, capsule, platform=platform, api_version=api_version)


def _visible() -> list[int] | None:
    text = cuda_visible_devices.value
    return None if text == "all" else [int(part) for part in text.split(",")]


def _plugin_options() -> dict[str, object]:
    """Parse the setting `pjrt_client_create_options`: a dict, or text such as `name:1;other:text`."""
    setting = pjrt_client_create_options.value
    if not isinstance(setting, str):
        return dict(setting or {})
    options: dict[str, object] = {}
    for part in setting.split(";"):
        name, _, text = part.partition(":")
        if name.strip():
            value = {"true": True, "false": False}.get(text.lower(), int(text) if text.isdigit() else text)
            options[name.strip()] = value
    return options


def _check_version(version: int) -> None:
    """Raise RuntimeError if the versions of plugin and jaxlib differ: they share private C++ structures."""
    import importlib.metadata  # noqa: PLC0415 (imported late: it loads 80 modules (zipfile, email, socket) that only the GPU needs)
    name = f"jax-cuda{version}-plugin"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return  # installed without metadata: the user is responsible for the version
    if found.split(".")[:3] != _jaxlib.VERSION.split(".")[:3]:
        raise RuntimeError(f"{name} is {found} but jaxlib is {_jaxlib.VERSION}: the versions must be equal; "
                           f"pip install '{name}[with-cuda]=={_jaxlib.VERSION}', or the other way round")


def _install_text() -> str:
    """Return the command that installs a CUDA plugin for this jaxlib: the extra of `lamina` if that is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 (only errors need it)
    if find_spec("lamina") is not None:
        return "pip install 'lamina[cuda13]', or 'lamina[cuda12]' for a driver of CUDA 12"
    return f"pip install 'jax-cuda13-plugin[with-cuda]=={_jaxlib.VERSION}' (the version of jaxlib)"


def make_client(distributed: CoordinationClient | None = None, node_id: int | None = None, num_nodes: int | None = None,
                visible: list[int] | None = None) -> Client:
    """Make the GPU client, for all GPUs or for those in `visible`. RuntimeError if no plugin is installed.

    The setting `cuda_visible_devices` takes precedence over `visible`.
    """
    plugin = _plugin()
    if plugin is None:
        raise RuntimeError(f"no CUDA plugin is installed; {_install_text()}")
    version, path = plugin
    _check_version(version)
    xc = _jaxlib.xc
    _preload()
    # A plugin is loaded once per process; a second client, after the first was closed, uses it again.
    if xc.pjrt_plugin_loaded("cuda"):
        c_api = None
    else:
        c_api = xc.load_pjrt_plugin_dynamically("cuda", path)
        _register(version, c_api)
        _jaxlib.import_submodule("_profiler").register_plugin_profiler(c_api)
    if not xc.pjrt_plugin_initialized("cuda"):
        xc.initialize_pjrt_plugin("cuda")
    options = dict(xc.generate_pjrt_gpu_plugin_options())
    options.setdefault("platform_name", "cuda")
    options |= _plugin_options()
    setting = _visible()
    visible = visible if setting is None else setting
    if visible is not None:
        options["visible_devices"] = visible
    if distributed is not None:
        options["node_id"], options["num_nodes"] = node_id, num_nodes
        # Otherwise a collective that waits for a failed process never ends.
        if "XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE" not in os.environ:
            options["abort_collectives_on_failure"] = True
    return xc.make_c_api_client("cuda", options, distributed)
