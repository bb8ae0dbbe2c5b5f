"""Detection of the CUDA plugin; no plugin is needed."""
import importlib.metadata

import pytest
from lamina_ir import ExecutionError
from lamina_runtime._jaxlib import cuda_plugin
from lamina_runtime import _jaxlib, device_put
from lamina_runtime._array import arrays
from lamina_tracing import jit, lax


def test_plugin_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.1")
    with pytest.raises(RuntimeError, match=rf"jax-cuda13-plugin is 0\.9\.1 but jaxlib is {_jaxlib.VERSION}.*pip install"):
        cuda_plugin._check_version(13)


def test_plugin_of_the_jaxlib_version_is_accepted(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: _jaxlib.VERSION)
    cuda_plugin._check_version(13)
    monkeypatch.undo()
    cuda_plugin._check_version(99)  # not installed as a distribution


def test_multi_process_compilation_is_not_sharded():
    assert (_jaxlib.multi_process_overrides("cpu") == ()
            and dict(_jaxlib.multi_process_overrides("cuda")) == {"xla_gpu_shard_autotuning": False})
    jit(lax.neg).lower(1.0).compile(dict(_jaxlib.multi_process_overrides("cuda")))  # this jaxlib has the option


def test_disallowed_transfer_error():
    x = device_put(1.0)
    with pytest.raises(ExecutionError, match=r"np.asarray of float32\[\]: the transfer guard refuses .*device_get"):
        raise arrays._read_failure("np.asarray", x, RuntimeError("INVALID_ARGUMENT: Disallowed device-to-host transfer"))


def test_missing_plugin_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setattr(cuda_plugin, "_plugin", lambda: None)
    with pytest.raises(RuntimeError, match=r"pip install '(lamina\[cuda13\]'|jax-cuda13-plugin)"):
        cuda_plugin.make_client()
