"""Failing calls become files that run again, also with NumPy alone, and shrink to small programs."""
import json
import os
import subprocess
import sys
import warnings
import zipfile

import lamina_numpy as np
import numpy as onp
from . import planted_failures as planted
import pytest
from lamina_ir import ProgramError, check, config, parse, replay
from lamina_parallel import Mesh, PartitionSpec, pmap, shard_map
from lamina_runtime import NamedSharding, device_put, devices
from lamina_see._replay import capture, command
from lamina_see._replay.rerun import Rerun
from lamina_see._replay.shrink import count_equations
from lamina_see.replay import DifferenceError, replay_folder, replay_max_files, replay_nonfinite, shadow_every, shadow_wait
from lamina_tracing import jit, lax


@pytest.fixture(autouse=True)
def comparison_within_the_call():
    """A call that differs raises itself."""
    with shadow_wait(True):
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which failing calls are written."""
    monkeypatch.setattr(capture, "_number_of_files", 0)
    with replay_folder(str(tmp_path / "failures")), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield tmp_path / "failures"


def files(folder):
    return sorted(folder.glob("*.replay")) if folder.exists() else []


def call_and_load(f, folder):
    """Call a function that fails and load the one file that it leaves."""
    try:
        f(planted.X)
    except Exception:
        pass
    path, = files(folder)
    return replay.load(path)


def assert_shrinks(failed, most):
    rerun = Rerun(failed, True)
    with replay.using_settings(failed):
        is_same, _ = rerun.run()
        assert is_same
        found = rerun.shrink(300)
        assert found.is_complete and count_equations(found.program) <= most < rerun.equations
        check(found.program)
        assert Rerun(rerun.smaller_call(found), True).run()[0]


@pytest.mark.parametrize("name", planted.NONFINITE)
def test_call_with_nonfinite_result_shrinks(name, folder):
    failed = call_and_load(planted.NONFINITE[name], folder)
    assert failed.failure.kind == "nonfinite" and len(failed.results) == 1
    assert replay.run(failed)[0]
    assert_shrinks(failed, 2)


@pytest.mark.parametrize("name", planted.ERRORS)
def test_call_that_raises_shrinks(name, folder):
    failed = call_and_load(planted.ERRORS[name], folder)
    assert (failed.failure.kind, failed.failure.error) == ("error", ("CheckError", "LAM1502"))
    assert replay.run(failed)[0]
    assert_shrinks(failed, 2)


# With the calls above, twenty failures are shrunk.
SHRUNK = ("tanh", "sum", "selection", "addition after a product", "division", "square root in a map")


@pytest.mark.parametrize("name", planted.DIFFERENCES)
def test_wrong_lowering_rule_is_found_and_shrinks(name, folder):
    prim, _, f = planted.DIFFERENCES[name]
    with planted.planted(name):
        with shadow_every(1), pytest.raises(DifferenceError, match=rf"`{prim.name}` gives .* at .*planted_failures.py:\d+"):
            f(planted.X)
        path, = files(folder)
        failed = replay.load(path)
        assert replay.run(failed)[0]
        if name in SHRUNK:
            assert_shrinks(failed, 3)
    assert not Rerun(failed, True).run()[0]


def test_right_programs_raise_no_alarm():
    with shadow_every(1):
        for name in planted.DIFFERENCES:
            planted.DIFFERENCES[name][2](planted.X)
        # A chaotic map: the results differ completely, although each equation is right.
        jit(lambda x: lax.fori_loop(0, 200, lambda i, y: 3.99 * y * (1 - y), x))(onp.float32([0.3, 0.4]))
        jit(lambda x: np.linalg.svd(x)[0])(planted.X)
        # XLA leaves out the rounding between the product and the conversion.
        w = planted.W.astype("bfloat16")
        jit(lambda x: ((x @ w).astype("float32") - (x @ w)) * 1e4)(planted.X.astype("bfloat16"))
        jit(lambda x: np.argsort(np.round(x * 2)))(planted.X)
        onp.asarray(jit(lambda x: np.exp(x * 88.7).sum())(onp.float32([1.0, 0.99])))


def test_difference_in_map_names_member_and_device():
    def rows(x):
        return lax.psum(np.sin(x) * np.cos(x), "i")

    mesh = Mesh(onp.array(devices()[:4]), ("i",))
    mapped = jit(shard_map(rows, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec()))
    x = onp.ones((4, 2), "float32")
    x[:2] = 0
    for f in (mapped, pmap(rows, "i")):
        with planted.wrong_sine(), shadow_every(1), pytest.raises(DifferenceError) as error:
            f(x)
        assert "`sin` gives" in str(error.value)
        assert "at index 2 of axis 'i' of 4, on device 2" in str(error.value)


def test_difference_in_sharded_call_names_devices():
    mesh = Mesh(onp.array(devices()[:4]), ("i",))
    x = onp.zeros(8, "float32")
    x[5] = 1
    with planted.wrong_sine(), shadow_every(1), pytest.raises(DifferenceError, match=r"in element \(5,\) .*on device 2"):
        jit(lambda x: np.sin(x) + 1)(device_put(x, NamedSharding(mesh, PartitionSpec("i"))))


def test_every_nth_launch_of_each_program_is_compared(monkeypatch):
    seen = []
    monkeypatch.setattr(capture, "_check_against_numpy", lambda launch: seen.append(launch.name))
    f = jit(lambda x: x + 1)
    f(1.0)
    with shadow_every(3):
        for _ in range(7):
            f(1.0)
    f(1.0)
    assert len(seen) == 3


def test_launches_are_not_wrapped_while_settings_are_off():
    from lamina_runtime._launch import observers
    assert not observers.wrappers
    with shadow_every(1), replay_folder("unused"):
        assert observers.wrappers == [capture._on_launch]
        with shadow_every(0):
            assert len(observers.wrappers) == 1
    assert not observers.wrappers


def test_donated_arguments_are_in_the_file(folder):
    f = jit(lambda x: np.log(x), donate_argnums=0)
    f(np.array([-1.0, 2.0]))
    assert replay.load(files(folder)[0]).arguments[0].tolist() == [-1, 2]


def test_nonfinite_argument_setting_and_limits_write_no_file(folder):
    f = jit(lambda x: x * 2)
    f(onp.float32([np.nan]))
    with replay_nonfinite(False):
        jit(np.log)(-1.0)
    with replay_max_files(0), pytest.warns(UserWarning, match="replay_max_files"):
        jit(lambda x: np.log(x))(-1.0)
    assert not files(folder)
    for _ in range(3):
        jit(np.sqrt)(-1.0)
    assert len(files(folder)) == 1


def test_folder_that_cannot_be_written_is_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with replay_folder(str(tmp_path / "file")), pytest.warns(UserWarning, match="could not be written"):
        assert np.isnan(jit(lambda x: np.log(x) + 1)(-1.0))


def test_settings_and_narrow_types_return(folder):
    with config.enable_x64(True):
        jit(lambda x, y: np.log(x) + y)(onp.float64([-1.0]), np.ones(1, "bfloat16"))
    failed = replay.load(files(folder)[0])
    assert failed.settings["enable_x64"] is True
    assert [a.dtype.name for a in failed.arguments] == ["float64", "bfloat16"]
    with replay.using_settings(failed):
        assert config.enable_x64.value and Rerun(failed, True).run()[0]


def test_programs_over_devices_run_again_where_there_are_enough(folder):
    mesh = Mesh(onp.array(devices()[:4]), ("i",))
    f = jit(shard_map(lambda x: lax.psum(np.log(x), "i"), mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec()))
    f(onp.float32([1, 2, -3, 4]))
    sharded = device_put(onp.float32([1, 2, -3, 4]), NamedSharding(mesh, PartitionSpec("i")))
    jit(np.sqrt)(sharded)
    for path in files(folder):
        failed = replay.load(path)
        assert failed.placement["devices"] == [0, 1, 2, 3]
        assert Rerun(failed, True).run()[0] and replay.run(failed)[0]
    few = failed._replace(placement={**failed.placement, "devices": list(range(99))})
    with pytest.raises(ValueError, match="needs 99 devices"):
        Rerun(few, True)


# --- files ------------------------------------------------------------------------------------------------------------
def example():
    program = parse("{ lambda ; a:f32[2]. let b:f32[2] = sub a 1.0:f32[] c:f32[2] = log b in (c,) }")
    return replay.FailedCall("f", "jit", program, [onp.zeros(2, "float32")], replay.Failure("nonfinite", "a NaN"))


def test_file_runs_with_lamina_ir_alone(tmp_path):
    path = tmp_path / "f.replay"
    replay.save(path, example())
    assert onp.load(path)["argument_0"].tolist() == [0, 0]
    source = ("import sys\nclass Block:\n def find_spec(self, name, *_):\n"
              "  if name.partition('.')[0] in ('jaxlib', 'lamina_tracing', 'lamina_runtime', 'lamina_see'):\n"
              "   raise ImportError(name)\n"
              "sys.meta_path.insert(0, Block())\nimport runpy\n"
              "runpy.run_module('lamina_ir.replay', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", source, str(path), "--json"], capture_output=True, text=True,
                          env=dict(os.environ))
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["result"] == "`log` produced a NaN in its result"


@pytest.mark.parametrize("change, message", [
    (lambda p: p.write_bytes(b"no archive"), "written by lamina.replay"),
    (lambda p: p.write_bytes(p.read_bytes()[:200]), "written by lamina.replay"),
    (lambda p: _rewrite(p, "about.json", lambda d: d.replace(b'"format": 1', b'"format": 9')), "format is 9"),
    (lambda p: _rewrite(p, "about.json", lambda d: d.replace(b'"nonfinite"', b'"unknown"')), "kind of failure"),
    (lambda p: _rewrite(p, "about.json", lambda d: b"[]"), "written by lamina.replay"),
    (lambda p: _rewrite(p, "argument_0.npy", lambda d: d + bytes(10 ** 6)), "more than"),
    (lambda p: _rewrite(p, "argument_0.npy", lambda d: d.replace(b"<f4", b"|O8")), "damaged"),
    (lambda p: _rewrite(p, "program.lamina", lambda d: d[:-1]), "cut off"),
])
def test_damaged_files_are_refused_in_one_sentence(tmp_path, capsys, change, message):
    path = tmp_path / "f.replay"
    replay.save(path, example())
    change(path)
    with pytest.raises(ProgramError, match=message):
        replay.load(path)
    for main in (command.main, replay.main):
        assert main([str(path)]) == 2
        assert "replay: load: " in capsys.readouterr().err


def _rewrite(path, member, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_command_runs_and_shrinks(tmp_path, capsys):
    path = tmp_path / "f.replay"
    replay.save(path, example())
    assert command.main([str(path), "--shrink"]) == 1
    out = capsys.readouterr().out
    assert "fails in the same way, compiled" in out and "shrunk:   1 equation after" in out
    small = replay.load(tmp_path / "f.small.replay")
    assert [e.primitive.name for e in small.program.eqns] == ["log"] and small.arguments[0].shape == (1,)
    assert command.main([str(path), "--numpy", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed_again"] is True
    assert command.main([str(path), "--text"]) == 0
    assert capsys.readouterr().out.startswith("{ lambda ; a:f32[2]. let")
    assert command.main([str(tmp_path / "absent")]) == 2
    finite = example()._replace(arguments=[onp.full(2, 3, "float32")])
    replay.save(path, finite)
    assert command.main([str(path), "--shrink"]) == 0
    assert "does not fail here" in capsys.readouterr().out


def test_program_with_python_functions_is_saved_as_text(folder):
    from lamina_tracing import pure_callback

    def fail(x):
        raise ValueError("no")

    with pytest.raises(Exception, match="no"):
        jit(lambda x: pure_callback(fail, x, x) + 1)(onp.float32(1))
    failed = replay.load(files(folder)[0])
    assert "pure_callback" in failed.text and failed.failure.error[0] == "CallbackError"
    assert not replay.run(failed)[0]
