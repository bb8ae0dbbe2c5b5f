"""Print counted figures of fixed programs as JSON: the interpreter and jaxlib, and {row: number}. The figures do not
depend on the speed of the machine.

usage: python tests/counts/measure.py [--update]

- `calls`: Python functions of lamina that a call runs, without disk cache, after the same kind of call ran once.
- `blocks`: objects that stay allocated, for each 1,000 equations of a traced program.
- `modules`: modules that `import lamina` and `import lamina.numpy` load.
- `equations`, `instructions`, `kernels`, `bytes`: equations of the program, instructions that XLA made of it, those that the
  outermost computation launches, and the planned memory of temporaries.

`--update` writes the numbers of this interpreter and jaxlib to counts.json.
"""
from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

os.environ |= {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "LAMINA_COMPILATION_CACHE": "0",
               "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}

import lamina
import lamina.numpy as jnp
import numpy as np
from lamina import lax
from lamina.experimental.maps import xmap

TABLE = Path(__file__).with_name("counts.json")
FIGURES: dict[str, float] = {}


def key() -> str:
    """Return the key of this interpreter and jaxlib in the table."""
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}, jaxlib {importlib.metadata.version('jaxlib')}"


def count_calls(run: Callable[[], Any]) -> int:
    """Return the number of calls of lamina's Python functions."""
    calls = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call" and "lamina" in frame.f_code.co_filename.rsplit("packages", 1)[-1] and frame.f_code not in ours
    ours = {profile.__code__, run.__code__}
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def measure_calls() -> None:
    """Count the Python calls of first and later calls of each transformation."""
    x, rows, square = jnp.ones(3), jnp.ones((4, 3)), jnp.ones((2, 2))
    mesh = lamina.sharding.Mesh(np.array(lamina.devices()[:4]).reshape(2, 2), ("x", "y"))

    def mapped(k: float) -> Callable[..., Any]:
        return xmap(lambda a: lax.psum(a * k, "a") + a, in_axes=["a", "b"], out_axes=["a", "b"],  # type: ignore[arg-type]
                    axis_resources={"a": "x", "b": "y"})

    makers: dict[str, tuple[Callable[[float], Callable[..., Any]], Any]] = {
        "jit": (lambda k: lamina.jit(lambda a: a * k + 1), x),
        "vmap": (lambda k: lamina.vmap(lambda a: jnp.tanh(a) * k), rows),
        "grad": (lambda k: lamina.grad(lambda t: jnp.tanh(t) * t * k), 2.0),
        "jit_grad": (lambda k: lamina.jit(lamina.grad(lambda t: (jnp.tanh(t) * t * k).sum())), x),
        "pmap": (lambda k: lamina.pmap(lambda a: lax.psum(a * k, "i"), axis_name="i"), rows),
        "xmap": (mapped, square),
        "eager": (lambda k: lambda a: a + k, x),
    }
    with mesh:
        for name, (make, argument) in makers.items():
            make(3.0)(argument)
            call = make(5.0)
            FIGURES[f"{name}_first_calls"] = count_calls(lambda: call(argument))
            call(argument)
            call(argument)
            FIGURES[f"{name}_later_calls"] = count_calls(lambda: call(argument))


def measure_blocks() -> None:
    """Count the objects of a program with 4,000 equations."""
    def chain(x: Any) -> Any:
        for _ in range(2000):
            x = jnp.sin(x) * 2
        return x
    lamina.make_jaxpr(chain)(1.0)
    gc.collect()
    before = sys.getallocatedblocks()
    program = lamina.make_jaxpr(chain)(1.0)
    gc.collect()
    FIGURES["trace_blocks"] = (sys.getallocatedblocks() - before) / len(program.jaxpr.eqns) * 1000


def measure_modules() -> None:
    """Count the modules that a new process loads."""
    text = "import sys; before = len(sys.modules); import lamina; import lamina.numpy; print(len(sys.modules) - before)"
    FIGURES["import_modules"] = int(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                                                   check=True).stdout)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _perceptron(w: Any, x: Any) -> Any:
    for matrix in w:
        x = jnp.tanh(x @ matrix)
    return (x ** 2).mean()


def _convolutions(w: Any, x: Any) -> Any:
    for kernel in w:
        x = lamina.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return (x ** 2).mean()


def _attention(w: Any, x: Any) -> Any:
    for query, key, value, out in w:
        scores = lamina.nn.softmax((x @ query) @ (x @ key).T / 4)
        x = x + scores @ (x @ value) @ out
        x = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)
    return (x ** 2).mean()


def _recurrent(w: Any, x: Any) -> Any:
    return (lax.scan(lambda h, row: (jnp.tanh(h @ w[0] + row @ w[1]), None), jnp.zeros(16), x)[0] ** 2).sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "perceptron": (_perceptron, [_normal(256, 256)] * 4, _normal(512, 256)),
    "convolutions": (_convolutions, [_normal(3, 3, 3, 8), _normal(3, 3, 8, 16)], _normal(4, 16, 16, 3)),
    "attention": (_attention, [[_normal(16, 16)] * 4] * 3, _normal(32, 16)),
    "recurrent": (_recurrent, [_normal(16, 16)] * 2, _normal(50, 16)),
}


def count_instructions(text: str) -> tuple[int, int]:
    """Return the instructions of optimised HLO: all, and those of the outermost computation that are launched."""
    entry = text.partition("\nENTRY ")[2].partition("\n}")[0]
    idle = re.compile(r"\b(parameter|tuple|get-tuple-element|bitcast|constant)\(")
    return (len(re.findall(r"^\s+(?:ROOT )?%?\S+ = ", text, re.MULTILINE)),
            sum(1 for line in entry.splitlines() if " = " in line and not idle.search(line)))


def measure_programs() -> None:
    """Count what becomes of the gradients of four small models."""
    for name, (loss, w, x) in PROGRAMS.items():
        step = lamina.jit(lamina.grad(loss))
        w, x = lamina.tree.map(jnp.asarray, (w, x))
        FIGURES[f"{name}_equations"] = len(lamina.make_jaxpr(lamina.grad(loss))(w, x).jaxpr.eqns)
        compiled = step.lower(w, x).compile()
        FIGURES[f"{name}_instructions"], FIGURES[f"{name}_kernels"] = count_instructions(compiled.as_text() or "")
        FIGURES[f"{name}_bytes"] = compiled.memory_analysis().temp_size_in_bytes


def main() -> None:
    measure_calls()
    measure_blocks()
    measure_modules()
    measure_programs()
    if "--update" in sys.argv:
        table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
        table[key()] = FIGURES
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(json.dumps([key(), FIGURES]))


if __name__ == "__main__":
    main()
