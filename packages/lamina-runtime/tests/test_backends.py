import os
import subprocess
import sys
import types

import lamina_runtime as rt
import pytest
from lamina_runtime._jaxlib import cuda_plugin
from lamina_runtime import _jaxlib
from lamina_runtime._backend import backends


def run_python(code, **more):
    env = {**os.environ, **more}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


def test_counts_of_devices_and_processes_agree():
    assert len(rt.devices()) == rt.device_count() == rt.local_device_count() == len(rt.local_devices()) == 8
    assert rt.process_index() == rt.host_id() == 0 and rt.process_count() == 1 and rt.default_backend() == "cpu"
    assert rt.devices("cpu") == rt.devices()


def test_unknown_platform_and_device_are_refused():
    with pytest.raises(RuntimeError, match="no platform 'vax'"):
        rt.devices("vax")
    with pytest.raises(TypeError, match="expected a device"):
        backends.resolve_device(3)


def test_option_sets_the_number_of_devices():
    done = run_python("import lamina_runtime as rt; from lamina_ir import config; config.update('num_cpu_devices', 3)\n"
                  "print(rt.device_count())", XLA_FLAGS="")
    assert done.stdout.split() == ["3"], done.stderr


def test_client_is_created_at_first_use():
    done = run_python("import lamina_runtime as rt; from lamina_runtime._backend import client_state\n"
                  "print(len(client_state.current.clients))\n"
                  "rt.devices(); print(len(client_state.current.clients))")
    assert done.stdout.split() == ["0", "1"], done.stderr


def test_xla_flags_are_unchanged():
    done = run_python("import os, lamina_runtime as rt; rt.devices(); print(os.environ.get('XLA_FLAGS'))", XLA_FLAGS="")
    assert done.stdout.strip() in ("", "None"), done.stderr


def test_import_after_jax_is_refused():
    done = run_python("import sys, types; sys.modules['jax'] = types.ModuleType('jax')\nimport lamina_runtime")
    assert done.returncode and "ImportError: lamina_runtime cannot be imported" in done.stderr


def test_import_of_jax_afterwards_is_refused(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    done = run_python("import lamina_runtime\nimport jax",
                  PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert done.returncode and "ImportError: jax cannot be imported" in done.stderr


def test_no_jax_modules_are_registered():
    done = run_python("import sys, lamina_runtime as rt; rt.device_put(1.0); found = sys.modules.get('jax.core', 'absent')\n"
                  "print(found, 'jax' in sys.modules)")
    assert done.stdout.split() == ["absent", "False"], done.stderr


@pytest.mark.parametrize("version", ["0.10.1", "0.13.0", "0.4.30"])
def test_other_jaxlib_versions_are_refused(version):
    done = run_python("import jaxlib.version as v; v.__version__ = " + repr(version) + "\nimport lamina_runtime")
    assert done.returncode and "needs jaxlib >=0.10.2,<0.13; found " + version in done.stderr


def test_missing_jaxlib_error_is_one_line():
    done = run_python("import sys; sys.modules['jaxlib.version'] = None\nimport lamina_runtime")
    assert done.returncode and "pip install 'jaxlib>=0.10.2,<0.13'" in done.stderr.splitlines()[-1]


def test_start_logs_nothing():
    done = run_python("import lamina_runtime as rt; rt.device_put(1.0)")
    assert done.returncode == 0 and done.stderr == ""


def test_backend_options_cannot_change_after_first_use():
    done = run_python("import lamina_runtime as rt; from lamina_ir import config; rt.devices()\n"
                  "config.update('num_cpu_devices', 2)")
    assert done.returncode and "before the first array" in done.stderr.replace("\n", " ")


def test_setup_tpu_gives_eight_devices():
    done = run_python("import lamina_runtime as rt; rt.setup_tpu(); print(rt.device_count())", XLA_FLAGS="")
    assert done.stdout.split() == ["8"] and "no TPU platform" in done.stderr


def test_live_arrays():
    x = rt.device_put(1.0)
    assert any(a is x for a in rt.live_arrays()) and rt.get_backend().platform == "cpu"


def test_all_kernels_and_types_of_the_plugin_are_registered(monkeypatch):
    extension = types.ModuleType("jax_cuda13_plugin.cuda_plugin_extension")
    extension.ffi_types = lambda: {"Plan": {"type_id": 1, "type_info": 2}}
    extension.ffi_handlers = lambda: {"staged": {"instantiate": 1, "execute": 2}, "plain": 3}
    extension.register_custom_type = extension.register_custom_call_target = lambda *args: None
    monkeypatch.setitem(sys.modules, "jax_cuda13_plugin", types.ModuleType("jax_cuda13_plugin"))
    monkeypatch.setitem(sys.modules, extension.__name__, extension)
    made = []
    fake = types.SimpleNamespace(
        register_custom_type_handler=lambda platform, call: None,
        register_custom_call_handler=lambda platform, call: None,
        register_custom_type=lambda name, kind, platform: made.append((platform, name, kind)),
        register_custom_call_target=lambda name, fn, platform, api_version: made.append((platform, name, fn)))
    monkeypatch.setattr(_jaxlib, "xc", fake)
    cuda_plugin._register(13, object())
    assert [m for m in made if m[1] in ("Plan", "staged", "plain")] == [
        ("CUDA", "Plan", {"type_id": 1, "type_info": 2}), ("CUDA", "staged", {"instantiate": 1, "execute": 2}),
        ("CUDA", "plain", 3)]


def test_failed_option_update_keeps_the_number_of_devices():
    done = run_python("""
import lamina_runtime as rt
from lamina_ir import config
config.update("num_cpu_devices", 3)
rt.devices()
for name, value in (("num_cpu_devices", 2), ("platforms", "vax")):
    before = config.options[name].value
    try:
        config.update(name, value)
    except RuntimeError as e:
        print(config.options[name].value == before, "before the first array" in str(e))
    config.update(name, before)
""", XLA_FLAGS="", JAX_PLATFORMS="")
    assert done.stdout.split() == ["True"] * 4, done.stderr


def test_local_devices_of_unknown_process_is_refused():
    assert rt.local_devices(process_index=0) == rt.devices()
    for name in ("process_index", "host_id"):
        with pytest.raises(ValueError, match=r"must be one of \[0\]; got 7"):
            rt.local_devices(**{name: 7})


def test_jitted_functions_run_on_the_new_client_after_a_reset():
    done = run_python("""
import numpy as np
import lamina_runtime as rt
from lamina_parallel import pmap
from lamina_runtime._backend import backends
from lamina_tracing import jit, lax
x = np.ones(4, np.float32)
f, g = pmap(lambda v: lax.psum(v, "i"), axis_name="i"), jit(lambda v: lax.sin(v))
old = rt.devices()[0]
for call in (f, g):
    call(x), call(x)
backends.reset()
assert rt.devices()[0] is not old
for call in (f, g):
    for _ in range(2):
        assert call(x).devices() <= set(rt.devices()) and old not in call(x).devices()
print("done")
""", XLA_FLAGS="--xla_force_host_platform_device_count=4")
    assert done.stdout.split() == ["done"], done.stderr
