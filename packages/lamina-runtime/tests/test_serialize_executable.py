"""Compiled calls as bytes: loaded here and in another process, and refused elsewhere."""
import pickle
import subprocess
import sys

import lamina_runtime as lr
import numpy as np
import pytest
from lamina_ir import ExecutionError, prims
from lamina_lowering.extend import lower_to_op, lowering_rules
from lamina_runtime import _jaxlib, stages
from lamina_runtime import serialize_executable as se
from lamina_runtime._compile import lowering
from lamina_tracing import jit, lax, pure_callback

X = np.arange(6, dtype="float32").reshape(2, 3)


def f(x, d):
    return {"y": lax.fori_loop(0, 3, lambda _, c: c * 2, lax.sin(x) + d["a"]), "n": lax.reduce_sum(x, (0,))}


def compiled(**options):
    return jit(f, **options).lower(X, {"a": 1.0}).compile()


def test_loaded_call_is_not_compiled_again():
    saved = se.serialize(compiled())
    before = lr.cache_stats()
    loaded = se.deserialize_and_load(*saved)
    got = loaded(X, {"a": 2.0})
    assert isinstance(loaded, stages.Compiled) and lr.cache_stats() == before
    np.testing.assert_allclose(got["y"], 8 * (np.sin(X) + 2), rtol=1e-6)
    np.testing.assert_allclose(got["n"], X.sum(0))
    assert loaded.in_tree == saved[1] and loaded.out_tree == saved[2] and "ENTRY" in loaded.as_text()
    assert loaded.out_info["y"].shape == (2, 3) and not got["y"]._committed
    np.testing.assert_allclose(loaded(lr.device_put(X, lr.devices()[0]), {"a": 2.0})["y"], got["y"])
    again = se.deserialize_and_load(*se.serialize(loaded))
    np.testing.assert_allclose(again(X, {"a": 2.0})["y"], got["y"])


def test_loaded_call_checks_its_arguments():
    loaded = se.deserialize_and_load(*se.serialize(compiled()))
    with pytest.raises(TypeError, match=r"compiled `f`: .*args\[1\]\['a'\] was compiled with float32\[\] and called with int"):
        loaded(X, {"a": 1})
    with pytest.raises(TypeError, match="compiled `f`: expected arguments of structure"):
        loaded(X)


def test_options_are_kept():
    loaded = se.deserialize_and_load(*se.serialize(compiled(donate_argnums=0, keep_unused=True)))
    x = lr.device_put(X)
    loaded(x, {"a": 1.0})
    assert x.is_deleted() and loaded.donate_argnums == (0,)


def test_other_process_loads_the_call(tmp_path):
    path = tmp_path / "call"
    path.write_bytes(pickle.dumps(se.serialize(compiled())))
    code = ("import pickle, sys, numpy as np, lamina_runtime as lr\n"
            "from lamina_runtime.serialize_executable import deserialize_and_load\n"
            "call = deserialize_and_load(*pickle.load(open(sys.argv[1], 'rb')))\n"
            "x = np.arange(6, dtype='float32').reshape(2, 3)\n"
            "np.testing.assert_allclose(call(x, {'a': 2.0})['y'], 8 * (np.sin(x) + 2), rtol=1e-6)\n"
            "print(lr.cache_stats().misses)")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


def test_call_is_loaded_for_another_device():
    if lr.local_device_count() < 2:
        pytest.skip("needs two devices")
    first, second = lr.devices()[:2]
    loaded = se.deserialize_and_load(*se.serialize(compiled()), execution_devices=[second])
    for x in (X, lr.device_put(X, first)):
        assert loaded(x, {"a": 1.0})["y"].devices() == {second}
    with pytest.raises(ValueError, match="call of `f`: it was loaded for the device .*execution_devices"):
        se.deserialize_and_load(*se.serialize(compiled()))(lr.device_put(X, second), {"a": 1.0})


CLOSED = """
import lamina_runtime as lr
import numpy as np
from lamina_runtime import serialize_executable as se
from lamina_runtime._compile import lowering
from lamina_tracing import jit, lax
x = np.arange(3, dtype="float32")
saved = se.serialize(jit(lambda x: lax.sin(x)).lower(x).compile())
loaded = se.deserialize_and_load(*saved)
lr.clear_backends()
try:
    loaded(x)
except RuntimeError as error:
    print(error)
print(se.deserialize_and_load(*saved)(x).shape)
"""


def test_loaded_call_of_a_closed_client_is_refused():
    # In another process, because shardings made by other tests end with their client.
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=120)
    message, shape = done.stdout.strip().splitlines()
    assert message.startswith("call of `<lambda>`: it was loaded for") and message.endswith(
        "closed by clear_backends(). Load it again") and shape == "(3,)", done.stderr


@pytest.mark.parametrize("change,text", [
    (lambda b: b[:50], "or are cut off"), (lambda b: b[:-1], "damaged or cut off"),
    (lambda b: b[:-1] + bytes([b[-1] ^ 1]), "damaged or cut off"), (lambda b: b"x" + b, "no compiled call of serialize"),
    (lambda b: b"", "no compiled call of serialize"), (lambda b: b[:8] + b"\x09" + b[9:], "format 9")])
def test_damaged_bytes_are_refused(change, text):
    data, *structures = se.serialize(compiled())
    with pytest.raises(ValueError, match=f"deserialize_and_load: .*{text}"):
        se.deserialize_and_load(change(data), *structures)


@pytest.mark.parametrize("key,text", [("jaxlib", "for the jaxlib 'other'; this is"), ("kind", "for the kind of device 'other'"),
                                      ("host", "another processor")])
def test_other_hosts_are_refused(key, text, monkeypatch):
    described = se._describe
    monkeypatch.setattr(se, "_describe", lambda device: {**described(device), key: "other"})
    saved = se.serialize(compiled())
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"deserialize_and_load: `f` was compiled .*{text}"):
        se.deserialize_and_load(*saved)


def test_wrong_arguments_are_named():
    data, ins, outs = se.serialize(compiled())
    with pytest.raises(TypeError, match="serialize: compiled must be a compiled call"):
        se.serialize(jit(f))
    with pytest.raises(TypeError, match="serialized must be bytes; got str"):
        se.deserialize_and_load("x", ins, outs)
    with pytest.raises(TypeError, match="in_tree must be a PyTreeDef"):
        se.deserialize_and_load(data, None, outs)
    with pytest.raises(ValueError, match="out_tree must have 2 leaves"):
        se.deserialize_and_load(data, ins, ins.children()[0].children()[0])
    with pytest.raises(ValueError, match="execution_devices must hold one device"):
        se.deserialize_and_load(data, ins, outs, execution_devices=[])


def test_programs_that_other_processes_cannot_run_are_refused():
    call = jit(lambda x: pure_callback(np.sin, x, x)).lower(X).compile()
    with pytest.raises(ValueError, match="serialize: .*calls Python functions"):
        se.serialize(call)


def test_executables_that_jaxlib_cannot_serialize_are_refused():
    call = jit(lambda x: lax.sort(x, dimension=0)).lower(np.ones((64, 8), np.float32)).compile()
    try:
        call.runtime_executable().serialize()
    except _jaxlib.JaxRuntimeError:
        with pytest.raises(ExecutionError, match="serialize: jaxlib cannot serialize the executable of .*lamina.export"):
            se.serialize(call)
    else:
        np.testing.assert_array_equal(se.deserialize_and_load(*se.serialize(call))(np.ones((64, 8), np.float32)), 1)


def test_saved_call_is_loaded_in_another_process_without_tracing(tmp_path):
    compiled().save(tmp_path / "call")
    assert [p.name for p in tmp_path.iterdir()] == ["call"]
    code = ("import sys, numpy as np, lamina_runtime as lr\nfrom lamina_tracing._core import staging\n"
            "staging.stage = None\n"
            "call = lr.serialize_executable.load_compiled(sys.argv[1])\n"
            "x = np.arange(6, dtype='float32').reshape(2, 3)\n"
            "np.testing.assert_allclose(call(x, {'a': 2.0})['y'], 8 * (np.sin(x) + 2), rtol=1e-6)\n"
            "print(lr.cache_stats().misses, lr.cache_stats().disk_hits)")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path / "call")], capture_output=True, text=True,
                          check=True)
    assert done.stdout.split() == ["0", "0"]


def check_compiled_again(path, text):
    with pytest.warns(RuntimeWarning, match=f"load_compiled: .*{text}.*; its program is compiled again") as caught:
        loaded = se.load_compiled(path)
    assert len(caught) == 1 and caught[0].filename == __file__
    np.testing.assert_allclose(loaded(X, {"a": 2.0})["y"], 8 * (np.sin(X) + 2), rtol=1e-6)
    with pytest.raises(TypeError, match="compiled `f`: expected arguments of structure"):
        loaded(X)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_program_of_a_damaged_executable_is_compiled(tmp_path, change):
    path = tmp_path / "call"
    compiled().save(path)
    path.write_bytes(change(path.read_bytes()))
    check_compiled_again(path, "the executable of `f` is damaged or cut off")


@pytest.mark.parametrize("key,text", [("jaxlib", "for the jaxlib 'other'; this is"), ("kind", "for the kind of device 'other'"),
                                      ("host", "another processor")])
def test_program_of_another_host_is_compiled(tmp_path, key, text, monkeypatch):
    described = se._describe
    monkeypatch.setattr(se, "_describe", lambda device: {**described(device), key: "other"})
    compiled().save(tmp_path / "call")
    monkeypatch.undo()
    check_compiled_again(tmp_path / "call", text)


def test_program_that_is_lowered_otherwise_is_compiled(tmp_path):
    with lowering_rules.override(prims.sin_p, lower_to_op("stablehlo.cosine")):
        call = compiled()
        call.save(tmp_path / "call")
    check_compiled_again(tmp_path / "call", "is lowered to another module")


def test_executable_that_jaxlib_refuses_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setattr(se, "_is_whole", lambda header, payload: True)
    compiled().save(tmp_path / "call")
    path = tmp_path / "call"
    path.write_bytes(path.read_bytes()[:-2000])
    check_compiled_again(path, "jaxlib cannot load the executable of `f`")


def test_files_that_are_no_saved_calls_are_refused(tmp_path):
    path = tmp_path / "call"
    with pytest.raises(FileNotFoundError):
        se.load_compiled(path)
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="load_compiled: .*no compiled call"):
        se.load_compiled(path)
    path.write_bytes(se.serialize(compiled())[0])
    with pytest.raises(ValueError, match="load_compiled: .*without the trees; load it with deserialize_and_load"):
        se.load_compiled(path)
    compiled().save(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match="load_compiled: .*damaged or cut off"):
        se.load_compiled(path)
    with pytest.raises(TypeError, match="save_compiled: compiled must be a compiled call"):
        se.save_compiled(jit(f), path)
    with pytest.raises(FileNotFoundError, match="save_compiled: the folder .*absent does not exist"):
        compiled().save(tmp_path / "absent" / "call")


LOADED_QUICKLY = """
import sys
import numpy as np
import lamina_runtime as lr
x = np.arange(6, dtype="float32").reshape(2, 3)
call = lr.load_compiled(sys.argv[1])
y = call(x, {"a": 2.0})["y"]
print("lamina_lowering" in sys.modules, round(float(y[0, 0]), 3))
again = lr.serialize_executable
print(again.deserialize_and_load(*again.serialize(call))(x, {"a": 2.0})["y"].shape, "sine" in call._lowered.as_text(),
      "lamina_lowering" in sys.modules)
"""


@pytest.mark.parametrize("is_overridden", [False, True])
def test_loaded_call_lowers_its_program_only_if_rules_may_differ(tmp_path, is_overridden, monkeypatch):
    if is_overridden:
        with lowering_rules.override(prims.sin_p, lower_to_op("stablehlo.cosine")):
            jit(lambda x, d: f(x, d)).lower(X, {"a": 1.0}).compile().save(tmp_path / "call")
    else:
        monkeypatch.setattr(lowering, "changed_rules", lambda platform: frozenset())  # other tests define rules
        compiled().save(tmp_path / "call")
    done = subprocess.run([sys.executable, "-c", LOADED_QUICKLY, str(tmp_path / "call")], capture_output=True, text=True,
                          check=True)
    assert done.stdout.splitlines() == [f"{is_overridden} 16.0", "(2, 3) True True"]
    assert ("lowered to another module" in done.stderr) is is_overridden


def test_donation_of_a_loaded_call_needs_no_module(tmp_path, monkeypatch):
    monkeypatch.setattr(lowering, "changed_rules", lambda platform: frozenset())
    with pytest.warns(UserWarning, match="cannot be reused"):
        jit(lambda x: lax.reduce_sum(x, (0,)), donate_argnums=0).lower(X).compile().save(tmp_path / "call")
    code = ("import sys, warnings, lamina_runtime as lr\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always')\n"
            "    lr.load_compiled(sys.argv[1])\n"
            "print(len(caught), 'no result has this shape' in str(caught[0].message), 'lamina_lowering' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "call")], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True", "False"]
