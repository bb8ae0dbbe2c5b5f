"""Replacing the compiler without replacing the lowering or the client."""
from concurrent.futures import ThreadPoolExecutor

import lamina_runtime as runtime
import numpy as np
import pytest
from lamina_ir import config, interfaces
from lamina_lowering import lower
from lamina_runtime import XLACompiler, compiler, set_compiler
from lamina_tracing import jit, lax, make_jaxpr


class Rewriting(XLACompiler):
    """Compiles sines instead of cosines, by editing the module's text."""

    name = "rewriting"

    def __init__(self):
        self.seen = []

    def compile(self, lowered, devices, settings, host_functions=()):
        self.seen.append(lowered.name)

        class Changed:
            placement = lowered.placement

            @staticmethod
            def bytecode():
                return lowered.as_text().replace("stablehlo.cosine", "stablehlo.sine").encode()

        return super().compile(Changed, devices, settings, host_functions)


@pytest.fixture
def rewriting():
    """A `Rewriting` compiler, installed for the test."""
    new = Rewriting()
    old = set_compiler(new)
    yield new
    set_compiler(old)


def test_set_compiler_recompiles_and_restores(rewriting):
    f = jit(lambda x: lax.cos(x) + 1)
    x = np.float32([0.5, 1.0])
    np.testing.assert_allclose(f(x), np.sin(x) + 1, rtol=1e-6)
    set_compiler(None)
    np.testing.assert_allclose(f(x), np.cos(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(lax.cos(x), np.cos(x), rtol=1e-6)
    set_compiler(rewriting)
    np.testing.assert_allclose(f(x), np.sin(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(lax.cos(x), np.sin(x), rtol=1e-6)


def test_disk_cache_is_separate_per_compiler(rewriting, tmp_path, monkeypatch):
    x = np.float32([0.25])
    first = jit(lambda x: lax.cos(lax.cos(x)))(x)
    set_compiler(None)
    second = jit(lambda x: lax.cos(lax.cos(x)))(x)
    np.testing.assert_allclose(first, np.sin(np.sin(x)), rtol=1e-6)
    np.testing.assert_allclose(second, np.cos(np.cos(x)), rtol=1e-6)


def test_unaccepted_format_error(monkeypatch):
    from lamina_lowering import Lowered
    monkeypatch.setattr(Lowered, "format", "numpy-source")
    with pytest.raises(TypeError, match="lowering made a program in the format 'numpy-source', and the compiler `xla` of "
                                        "lamina_runtime accepts stablehlo; choose a runtime that accepts it"):
        jit(lambda x: lax.tan(x) * 3)(np.float32(2))


@pytest.mark.parametrize("wrong, lacks", [(3, "name, accepts, compile"), (type("C", (), {"name": "c"})(), "accepts, compile")])
def test_invalid_compiler_is_refused(wrong, lacks):
    with pytest.raises(TypeError, match=f"set_compiler: expected an object with name, accepts and compile; .* has no {lacks}"):
        set_compiler(wrong)


def test_packages_implement_the_published_protocols():
    assert isinstance(runtime, interfaces.Runtime) and isinstance(compiler(), interfaces.Compiler)
    assert isinstance(lower(make_jaxpr(lax.sin)(1.0)), interfaces.Lowered)


def test_concurrent_compilations_return_their_own_programs():
    x = np.float32([0.5, 1.0])

    def compiled(k):
        with config.options["compilation_cache"](False):
            return jit(lambda x: lax.cos(x) * k + lax.cumsum(x))(x)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compiled, np.float32(range(3, 27))))
    for k, got in zip(range(3, 27), found, strict=True):
        np.testing.assert_allclose(got, np.cos(x) * k + np.cumsum(x), rtol=1e-6)
