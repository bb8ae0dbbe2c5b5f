"""`max_compiles` and the history of compilations."""
import numpy as np
import pytest
from lamina_see import CompilationLimitError, max_compiles
from lamina_tracing import jit
import lamina_numpy as jnp


def test_compilation_beyond_the_limit_raises_with_the_reasons():
    f = jit(lambda x: jnp.sin(x) * 2)
    with pytest.raises(CompilationLimitError, match=r"at most 1 .* got 2(?s:.*)shape changed from \(3,\) to \(4,\)") as caught:
        with max_compiles(1):
            for n in (3, 3, 4):
                f(np.ones(n, np.float32))
    assert [row["signature"] for row in caught.value.compilations] == ["float32[3]", "float32[4]"]
    assert caught.value.code == "LAM1507"


def test_call_that_was_compiled_before_does_not_count():
    f = jit(lambda x: jnp.cos(x) * 3)
    f(np.ones(5, np.float32))
    with max_compiles(0) as history:
        f(np.ones(5, np.float32))
    assert history.rows == []


def test_history_has_the_phases_and_the_call():
    f = jit(lambda x: jnp.cos(x) * 4 + 1)
    with max_compiles(10) as history:
        f(np.ones(6, np.float32))
    [row] = history.rows
    assert row["file"] == __file__ and row["kind"] == "jit" and row["line"] > 0
    assert min(row["trace"], row["lower"], row["xla"]) > 0 and row["disk_cache"] == "miss"


def test_nothing_is_watched_outside_of_the_block():
    from lamina_tracing._diagnostics import cache_misses
    from lamina_runtime._launch import observers
    with pytest.raises(ZeroDivisionError):
        with max_compiles(3):
            1 / 0
    assert not cache_misses.staging_watchers and not observers.compilation_watchers


@pytest.mark.parametrize("n", [True, 1.5, "2"])
def test_limit_must_be_an_integer(n):
    with pytest.raises(TypeError, match="n must be an integer"):
        max_compiles(n)


def test_limit_must_not_be_negative():
    with pytest.raises(ValueError, match="at least 0"):
        max_compiles(-1)
