import os
import subprocess
import sys

import numpy as np
import pytest
from lamina_ir import config
from lamina_runtime import cache_stats, clear_memory, compile_cache
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
