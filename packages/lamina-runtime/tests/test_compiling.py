import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from lamina_ir import config
from lamina_runtime import cache_stats, clear_memory
from lamina_runtime._compile import disk_cache, executable_cache
from lamina_runtime import compilation_cache as cc
from lamina_tracing import jit, lax

PROGRAM = """
import numpy as np, lamina_runtime as rt
from lamina_tracing import jit, lax
assert float(jit(lambda x: lax.add(lax.sin(x), 0.25))(np.float32(0))) == 0.25
print(*rt.cache_stats())
"""


def run(folder, program=PROGRAM, **more):
    env = {**os.environ, "LAMINA_CACHE_DIR": str(folder), **more}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return tuple(int(n) for n in done.stdout.split()), done.stderr


MOVED = """
import numpy as np, lamina_runtime as rt
from lamina_tracing import jit, lax
from lamina_autodiff import grad
{blank}def f(x):
    y = lax.sin(x)
    return lax.mul(y, lax.exp(y))
compiled = jit(grad(f)).lower(np.float32(0)).compile()
lines = {{at.line for at in compiled.source_map().values()}}
assert lines == {{6 + {moved}, 7 + {moved}}}, lines
print(*rt.cache_stats())
"""


def test_function_whose_lines_moved_is_found_on_disk(tmp_path):
    pytest.importorskip("lamina_autodiff")
    first = run(tmp_path, MOVED.format(blank="", moved=0))[0]
    again = run(tmp_path, MOVED.format(blank="\n" * 10, moved=10))[0]
    assert first[2] == 1 and again[2] == 0 and again[1] == 1  # compiled once; then loaded from disk


def test_equal_programs_share_one_executable():
    jit(lambda x: lax.add(x, 0.123))(np.float32(1))
    before = cache_stats()
    jit(lambda x: lax.add(x, 0.123))(np.float32(2))
    after = cache_stats()
    assert after.memory_hits == before.memory_hits + 1 and after.misses == before.misses


def test_next_process_loads_the_program_from_disk(tmp_path):
    folder = tmp_path / "cache"
    assert run(folder)[0] == (0, 0, 1, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(folder)[0] == (0, 1, 0, 0)
    assert run(folder, LAMINA_CACHE="0")[0] == (0, 0, 1, 0)


def test_eager_primitives_are_stored_and_counted(tmp_path):
    program = "import lamina_runtime as rt\nfrom lamina_tracing import lax\nlax.sin(0.5)\nprint(*rt.cache_stats())"
    assert run(tmp_path, program)[0] == (0, 0, 1, 1)
    assert run(tmp_path, program)[0] == (0, 1, 0, 0)


@pytest.mark.parametrize("damage", [*(pytest.param(d, marks=pytest.mark.slow) for d in (b"", b"rubbish", "cut")), "bits"])
def test_damaged_files_are_replaced(tmp_path, damage):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-7], "bits": data[:-1] + b"\0"}.get(damage, damage) if isinstance(damage, str)
                     else damage)
    assert run(tmp_path)[0] == (0, 0, 1, 1)
    assert run(tmp_path)[0] == (0, 1, 0, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX rights")
def test_world_writable_folder_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    stats, text = run(tmp_path)
    assert stats == (0, 0, 1, 0) and "does not use the compilation cache" in text and not list(tmp_path.iterdir())


def test_nothing_is_stored_when_the_cache_is_off(monkeypatch):
    with config.options["compilation_cache"](False):
        assert disk_cache.cache_path(b"", ()) is None


def test_trim_removes_oldest_files_first(tmp_path):
    sub = tmp_path / "ab"
    sub.mkdir()
    for i in range(5):
        (sub / f"{i:064x}").write_bytes(b"x" * 100)
        os.utime(sub / f"{i:064x}", (i, i))
    assert disk_cache.trim(str(tmp_path), 250) == 3
    assert sorted(int(p.name, 16) for p in sub.iterdir()) == [3, 4]


def test_clear_memory_resets_stats():
    clear_memory()
    assert cache_stats() == (0, 0, 0, 0)


# --- the public API, and other processes ------------------------------------------------------------------------------
def fresh(k):
    return jit(lambda x: lax.add(lax.sin(x), k))(np.float32(0))


def test_compilation_cache_stats_and_clear(tmp_path):
    old = disk_cache.compilation_cache_dir.value
    cc.set_directory(tmp_path / "here")
    try:
        cc.clear()
        fresh(0.5)
        assert cc.stats() == (0, 0, 1, 1) and cc.directory() == str(tmp_path / "here") and cc.size() > 0
        cc.clear()
        fresh(0.5 + 0)
        assert cc.stats().disk_hits == 1
        with cc.disabled():
            assert cc.directory() is None and not cc.is_enabled()
            fresh(0.625)
        assert cc.stats() == (0, 1, 1, 0)
        foreign = tmp_path / "here" / "notes.txt"
        foreign.write_text("not ours")
        cc.clear(disk=True)
        assert cc.size() == 0 and foreign.exists() and cc.stats() == (0, 0, 0, 0)
        fresh(0.75)
        assert cc.trim(0) == 1 and cc.size() == 0
    finally:
        cc.set_directory(old)
    with pytest.raises(ValueError, match="number of bytes"):
        cc.set_max_bytes(-1)


@pytest.mark.slow
def test_processes_write_the_same_program_concurrently(tmp_path):
    env = {**os.environ, "LAMINA_CACHE_DIR": str(tmp_path)}
    jobs = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True)
            for _ in range(4)]
    assert all(job.wait(120) == 0 for job in jobs)
    for job in jobs:
        job.stdout.close()
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1  # no partial file is left
    assert run(tmp_path)[0] == (0, 1, 0, 0)


def test_partial_file_is_not_read(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    (path.parent / ".new-abc").write_bytes(path.read_bytes()[:100])
    path.unlink()
    assert run(tmp_path)[0] == (0, 0, 1, 1)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX rights")
def test_world_writable_file_is_not_loaded(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    path.chmod(0o666)
    assert run(tmp_path)[0][1] == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a file away")
def test_files_and_folders_of_other_users_are_not_used(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    os.chown(path, 12345, 12345)
    assert run(tmp_path)[0][1] == 0
    os.chown(tmp_path, 12345, 12345)
    stats, text = run(tmp_path)
    assert stats[1] == stats[3] == 0 and "belongs to another user" in text


def test_folder_that_cannot_be_created_disables_the_cache(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "cache")[0] == (0, 0, 1, 0)


def test_compiler_options_are_part_of_the_key(tmp_path):
    run(tmp_path)
    assert run(tmp_path, XLA_FLAGS=os.environ.get("XLA_FLAGS", "") + " --xla_cpu_enable_fast_math=false")[0][1] == 0


# --- errors on disk ---------------------------------------------------------------------------------------------------
KILLED = """
import os, signal
from lamina_runtime._compile import disk_cache
rename = os.replace
def replace(*names):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace
""" + PROGRAM


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_file_of_a_killed_writer_is_not_read(tmp_path):
    env = {**os.environ, "LAMINA_CACHE_DIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=env, timeout=120).returncode == -signal.SIGKILL
    left, = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert left.name.startswith(".new-")
    assert run(tmp_path)[0] == (0, 0, 1, 1)
    assert run(tmp_path)[0] == (0, 1, 0, 0)
    assert disk_cache.trim(str(tmp_path), 1 << 30) == 0 and left.exists()  # another process may still write it
    os.utime(left, (time.time() - 4000,) * 2)
    assert disk_cache.trim(str(tmp_path), 1 << 30) == 1 and not left.exists()


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs POSIX links")
def test_links_to_files_are_replaced(tmp_path):
    run(tmp_path / "cache")
    path, = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert run(tmp_path / "cache")[0] == (0, 0, 1, 1)
    assert path.is_file() and not path.is_symlink() and (tmp_path / "elsewhere").exists()
    (tmp_path / "link").symlink_to(tmp_path / "cache")  # the user's own link to the user's own folder
    assert run(tmp_path / "link")[0] == (0, 1, 0, 0)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_unwritable_folder_warns_once(tmp_path, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))
    monkeypatch.setattr(os, "replace", fail)
    path = str(tmp_path / "ab" / ("ab" * 32))
    disk_cache._warn.cache_clear()
    with pytest.warns(UserWarning, match=f"cannot write.*{os.strerror(number)}.*LAMINA_CACHE_DIR") as warned:
        assert not disk_cache.store(path, b"code") and not disk_cache.store(path, b"code")
    assert len(warned) == 1 and not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX limits")
def test_full_disk_disables_storing(tmp_path):
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" \
            "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
    env = {**os.environ, "LAMINA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", limit + PROGRAM], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "0", "1", "0"] and "cannot write to the compilation cache" in done.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_unwritable_home_disables_storing(tmp_path):
    (tmp_path / "home").write_text("")
    env = {k: v for k, v in os.environ.items() if k not in ("LAMINA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={**env, "HOME": str(tmp_path / "home")},
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "0", "1", "0"] and "cannot store compiled programs on disk" in done.stderr


def test_folder_is_trimmed_once_per_number_of_bytes(tmp_path, monkeypatch):
    trims = []
    monkeypatch.setattr(disk_cache, "_space", disk_cache._Space())
    monkeypatch.setattr(disk_cache, "trim", lambda *a, trim=disk_cache.trim: trims.append(trim(*a)))
    monkeypatch.setattr(disk_cache, "compilation_cache_max_bytes", type("Limit", (), {"value": 100_000}))
    for n in range(600):
        name = f"{n % 256:02x}" + f"{n:062x}"
        assert disk_cache.store(str(tmp_path / name[:2] / name), bytes(1000))
    assert 600 * 1000 * 16 // 100_000 - 20 <= len(trims) <= 600 * 1000 * 16 // 100_000 + 1
    assert sum(s.st_size for _, s in disk_cache.list_files(str(tmp_path))) <= 110_000 and sum(trims) > 400


def test_process_runs_and_stores_only_its_own_programs(tmp_path):
    program = """
import threading
import numpy as np, lamina_runtime as rt
from lamina_tracing import jit, lax
assert np.asarray(jit(lambda x: lax.dot(x, x))(np.ones((2, 2), np.float32))).tolist() == [[2, 2], [2, 2]]
assert threading.enumerate() == [threading.main_thread()]
print(*rt.cache_stats())
"""
    env = {**os.environ, "LAMINA_CACHE_DIR": str(tmp_path)}
    for expected in ("0 0 1 1", "0 1 0 0"):
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert done.stdout.strip() == expected
        assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1


def test_swapped_files_are_not_loaded(tmp_path):
    program = ("import numpy as np, lamina_runtime as rt\nfrom lamina_tracing import jit, lax\n"
               "f, g = jit(lambda x: lax.add(lax.sin(x), 1.)), jit(lambda x: lax.add(lax.sin(x), 2.))\n"
               "assert float(f(np.float32(0))) == 1 and float(g(np.float32(0))) == 2\nprint(*rt.cache_stats())")
    assert run(tmp_path, program)[0] == (0, 0, 2, 2)
    a, b = [p for p in tmp_path.rglob("*") if p.is_file()]
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    assert run(tmp_path, program)[0] == (0, 0, 2, 2)
    assert run(tmp_path, program)[0] == (0, 2, 0, 0)


@pytest.mark.parametrize("variable", ["LAMINA_CACHE_DIR", "LAMINA_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"])
def test_tilde_in_the_folder_is_expanded(tmp_path, variable):
    others = dict.fromkeys(("LAMINA_CACHE_DIR", "LAMINA_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"), "")
    program = "import lamina_runtime as rt, os\nprint(rt.cache_dir() == os.environ['HOME'] + '/cache', os.path.exists('~'))"
    env = {**os.environ, **others, "HOME": str(tmp_path), variable: "~/cache"}
    done = subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stdout + done.stderr


@pytest.mark.parametrize("held, read", [(0, 1), (1 << 20, 0)])
def test_small_program_is_reloaded_if_few_programs_are_held(monkeypatch, held, read):
    taken, load = [], executable_cache._deserialize
    monkeypatch.setattr(executable_cache, "_RELOAD_MIN_PROGRAMS", held)
    monkeypatch.setattr(executable_cache, "_deserialize", lambda *args: taken.append(args) or load(*args))
    number = np.float32(time.time() % 1000)  # no stored program has it
    np.testing.assert_allclose(jit(lambda x: lax.sin(x) * number)(np.float32(0.5)), np.sin(np.float32(0.5)) * number, rtol=1e-6)
    assert len(taken) == read
