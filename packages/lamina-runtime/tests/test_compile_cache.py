import os
import subprocess
import sys

import numpy as np
import pytest
from lamina_ir import config
from lamina_runtime import cache_stats, clear_memory, compile_cache
from lamina_runtime import compilation_cache as cc
from lamina_tracing import jit, lax

PROGRAM = """
import numpy as np, lamina_runtime as rt
from lamina_tracing import jit, lax
assert float(jit(lambda x: lax.add(lax.sin(x), 0.25))(np.float32(0))) == 0.25
print(*rt.cache_stats())
"""


def run(folder, **more):
    env = {**os.environ, "LAMINA_CACHE_DIR": str(folder), **more}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return tuple(int(n) for n in done.stdout.split()), done.stderr


def test_equal_programs_share_one_executable():
    jit(lambda x: lax.add(x, 0.123))(np.float32(1))
    before = cache_stats()
    jit(lambda x: lax.add(x, 0.123))(np.float32(2))
    after = cache_stats()
    assert after.memory_hits == before.memory_hits + 1 and after.misses == before.misses


def test_the_next_process_finds_it(tmp_path):
    folder = tmp_path / "cache"
    assert run(folder)[0] == (0, 0, 1, 1)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(folder)[0] == (0, 1, 0, 0)
    assert run(folder, LAMINA_CACHE="0")[0] == (0, 0, 1, 0)


@pytest.mark.parametrize("damage", [b"", b"rubbish", "cut", "bits"])
def test_damaged_files_are_replaced(tmp_path, damage):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-7], "bits": data[:-1] + b"\0"}.get(damage, damage) if isinstance(damage, str)
                     else damage)
    assert run(tmp_path)[0] == (0, 0, 1, 1)
    assert run(tmp_path)[0] == (0, 1, 0, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX rights")
def test_a_folder_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    stats, text = run(tmp_path)
    assert stats == (0, 0, 1, 0) and "does not use the compilation cache" in text and not list(tmp_path.iterdir())


def test_switch(monkeypatch):
    with config.options["compilation_cache"](False):
        assert compile_cache._path(b"", ()) is None


def test_oldest_files_go_first(tmp_path):
    sub = tmp_path / "ab"
    sub.mkdir()
    for i in range(5):
        (sub / str(i)).write_bytes(b"x" * 100)
        os.utime(sub / str(i), (i, i))
    assert compile_cache.trim(str(tmp_path), 250) == 3
    assert sorted(p.name for p in sub.iterdir()) == ["3", "4"]


def test_memory_can_be_cleared():
    clear_memory()
    assert cache_stats() == (0, 0, 0, 0)


# --- the public face, and other processes -----------------------------------------------------------------------------
def fresh(k):
    return jit(lambda x: lax.add(lax.sin(x), k))(np.float32(0))


def test_statistics_switches_and_clearing(tmp_path):
    old = compile_cache.compilation_cache_dir.value
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


def test_many_processes_write_the_same_program_at_once(tmp_path):
    env = {**os.environ, "LAMINA_CACHE_DIR": str(tmp_path)}
    jobs = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True)
            for _ in range(4)]
    assert all(job.wait(120) == 0 for job in jobs)
    for job in jobs:
        job.stdout.close()
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1  # and nothing half-written is left
    assert run(tmp_path)[0] == (0, 1, 0, 0)


def test_a_write_that_was_cut_off_leaves_nothing_that_is_read(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    (path.parent / ".new-abc").write_bytes(path.read_bytes()[:100])
    path.unlink()
    assert run(tmp_path)[0] == (0, 0, 1, 1)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX rights")
def test_a_file_others_may_write_to_is_not_loaded(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    path.chmod(0o666)
    assert run(tmp_path)[0][1] == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a file away")
def test_files_and_folders_of_others_are_not_used(tmp_path):
    run(tmp_path)
    path, = [p for p in tmp_path.rglob("*") if p.is_file()]
    os.chown(path, 12345, 12345)
    assert run(tmp_path)[0][1] == 0
    os.chown(tmp_path, 12345, 12345)
    stats, text = run(tmp_path)
    assert stats[1] == stats[3] == 0 and "belongs to someone else" in text


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "cache")[0] == (0, 0, 1, 0)


def test_options_and_program_are_in_the_key(tmp_path):
    run(tmp_path)
    assert run(tmp_path, XLA_FLAGS=os.environ.get("XLA_FLAGS", "") + " --xla_cpu_enable_fast_math=false")[0][1] == 0
