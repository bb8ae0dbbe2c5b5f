"""The codes of errors: each code with its class, and a program that raises it. Codes are stable: never change or reuse one.

`python error_examples.py` runs the programs and prints the messages as JSON, for the page that docs/_ext/error_pages.py writes.
"""
from __future__ import annotations

import json
from typing import NamedTuple


class Example(NamedTuple):
    """The class of a code and a program, in which `lamina`, `jnp` and `np` are imported.

    A program of several processes runs in two. An empty one has a reason: no single call raises the error.
    """

    error: str
    program: str
    processes: int = 1
    reason: str = ""


EXAMPLES = {
    "LAM1000": Example("lamina.errors.LaminaError", "", reason="the base class of the others"),
    "LAM1101": Example("lamina.errors.ShapeError", "jnp.ones(3) + jnp.ones(4)"),
    "LAM1102": Example("lamina.errors.DTypeError", "jnp.ones(3).astype('text')"),
    "LAM1103": Example("lamina.errors.UnboundAxisError", "lamina.lax.psum(1.0, 'batch')"),
    "LAM1104": Example("lamina_ir.trees._python_backend.MixedKeysError", "lamina.tree.leaves({1: 0, 'a': 1})"),
    "LAM1105": Example("lamina.errors.ShardingTypeError", """
from lamina.sharding import AxisType
mesh = lamina.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
x = lamina.device_put(jnp.ones((2, 2)), lamina.NamedSharding(mesh, lamina.P("x")))
x @ x.T"""),
    "LAM1106": Example("lamina.errors.ShardingMismatchError", """
from lamina.sharding import AxisType
mesh = lamina.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
x = lamina.device_put(jnp.ones((2, 2)), lamina.NamedSharding(mesh, lamina.P("x")))
lamina.lax.with_sharding_constraint(x, lamina.NamedSharding(mesh, lamina.P()))"""),
    "LAM1200": Example("lamina.errors.ConcretizationError", "lamina.jit(lambda x: float(x))(1.0)"),
    "LAM1201": Example("lamina.errors.TracerBoolError", "lamina.jit(lambda x: x if x > 0 else -x)(1.0)"),
    "LAM1202": Example("lamina.errors.TracerArrayError", "lamina.jit(lambda x: np.save('x.npy', x))(jnp.ones(3))"),
    "LAM1203": Example("lamina.errors.TracerIntegerError", "lamina.jit(lambda n: sum(range(n)))(3)"),
    "LAM1204": Example("lamina.errors.TracerIndexError", "lamina.jit(lambda x: x[x > 0])(jnp.ones(3))"),
    "LAM1205": Example("lamina.errors.StaticArgumentError",
                       "lamina.jit(lambda x, axes: x.sum(axes), static_argnums=1)(jnp.ones((2, 2)), [0, 1])"),
    "LAM1206": Example("lamina.errors.LeakedTracerError", """
kept = []
lamina.jit(kept.append)(1.0)
kept[0] + 1"""),
    "LAM1207": Example("lamina.errors.KeyReuseError", """
key = lamina.random.key(0)
with lamina.debug_key_reuse(True):
    lamina.random.normal(key) + lamina.random.uniform(key)"""),
    "LAM1208": Example("lamina_tracing.linear_util.StoreException", """
import lamina_compat
lamina_compat.as_jax()
from jax import linear_util
linear_util.Store().val"""),
    "LAM1300": Example("lamina.errors.MissingRuleError", "lamina.grad(lambda x: jnp.nextafter(x, 2.0))(1.0)"),
    "LAM1301": Example("lamina.errors.UnboundedLoopError",
                       "lamina.grad(lambda x: lamina.lax.while_loop(lambda y: y < 9, lambda y: y * 2, x))(1.0)"),
    "LAM1302": Example("lamina.errors.CallbackRuleError", "lamina.grad(lambda x: lamina.pure_callback(np.sin, x, x))(1.0)"),
    "LAM1303": Example("lamina_compat._rule_views.MissingRule", """
import lamina_compat
lamina_compat.as_jax()
from jax.interpreters import ad
ad.primitive_jvps[lamina.lax.nextafter_p]"""),
    "LAM1400": Example("lamina.errors.ProgramError", """
import lamina_ir
lamina_ir.parse("{ lambda")"""),
    "LAM1401": Example("lamina_compat.names.core.JaxprTypeError", """
import lamina_compat
lamina_compat.as_jax()
from jax import core
x, y = (core.Var(core.ShapedArray((2,), np.float32)) for _ in range(2))
core.check_jaxpr(core.Jaxpr([], [x], [y], []))"""),
    "LAM1500": Example("lamina.errors.ExecutionError", "lamina.jit(jnp.sin).lower(1.0).compile({'xla_nothing': 1})"),
    "LAM1501": Example("lamina.errors.CallbackError", "lamina.pure_callback(lambda x: 1 / 0, jnp.float32(0), 1.0)"),
    "LAM1502": Example("lamina.errors.CheckError",
                       "lamina.jit(lambda x: lamina.debug.check(x > 0, 'x must be positive; got {}', x))(-1.0)"),
    "LAM1503": Example("lamina.errors.OutOfBoundsError", """
with lamina.debug_bounds(True):
    jnp.arange(3)[5]"""),
    "LAM1504": Example("lamina.experimental.checkify.JaxRuntimeError", """
from lamina.experimental import checkify
def f(x):
    checkify.check(x > 0, "x must be positive")
    return x
error, y = lamina.jit(checkify.checkify(f))(-1.0)
error.throw()"""),
    "LAM1505": Example("lamina.experimental.host_callback.CallbackException", """
from lamina.experimental import host_callback
def f(x):
    return host_callback.id_tap(lambda x, transforms: 1 / 0, x)
x = jnp.ones((300, 300))
f = lamina.jit(f).lower(x).compile()
y = f(lamina.lax.fori_loop(0, 300, lambda i, x: x @ x, x))  # f runs later, so its call returns
host_callback.barrier_wait()"""),
    "LAM1506": Example("lamina_runtime._backend.launch_guards.DeletedArrayError", """
x = jnp.ones(3)
y = lamina.jit(lambda x: x + 1, donate_argnums=0)(x)
x + 1"""),
    "LAM1507": Example("lamina_see.CompilationLimitError", """
f = lamina.jit(lambda x: x * 2)
with lamina.max_compiles(1):
    f(np.ones(3)), f(np.ones(4))"""),
    "LAM1510": Example("lamina.errors.OutOfMemoryError", "lamina.lax.full((10**9, 10**9), 1.0).block_until_ready()"),
    "LAM1511": Example("lamina_see.replay.DifferenceError", """
from lamina_lowering.extend import lowering_rules
from lamina_ir import prims
from lamina_see import replay
wrong = lowering_rules.override(prims.sin_p, lambda ctx, x: ctx.op("stablehlo.cosine", (x,), ctx.aval_out))
with replay.shadow_every(1), replay.shadow_wait(True), wrong:
    lamina.jit(lambda x: jnp.sin(x))(1.0)"""),
    "LAM1601": Example("lamina.distributed.AgreementError", """
f = lamina.pmap(lambda x: lamina.lax.psum(x, "i"), "i")
g = lamina.pmap(lambda x: lamina.lax.pmax(x, "i"), "i")
h = f if lamina.process_index() == 0 else g
h(jnp.ones(1))""", processes=2),
    "LAM1602": Example("lamina.distributed.CollectiveTimeoutError", """
import time
lamina.config.update("collective_timeout_seconds", 0.5)
if lamina.process_index() == 1:
    time.sleep(2)
lamina.pmap(lambda x: lamina.lax.psum(x, "i"), "i")(jnp.ones(1))""", processes=2),
    "LAM1603": Example("lamina.distributed.ProcessLostError", """
import os
if lamina.process_index() == 1:
    os._exit(0)
lamina.pmap(lambda x: lamina.lax.psum(x, "i"), "i")(jnp.ones(1))""", processes=2),
    "LAM1604": Example("lamina.distributed.LaunchFailedError", """
import pathlib, resource
f = lamina.pmap(lambda x: jnp.broadcast_to(lamina.lax.psum(x, "i"), 2**26), "i")  # 256 MB
f = f.lower(jnp.ones(1)).compile()
if lamina.process_index() == 1:  # 64 MB of memory are left in one of the processes
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**26, -1))
f(jnp.ones(1))""", processes=2),
    "LAM1605": Example("lamina.distributed.CoordinatorLostError", """
import os, signal, time
from lamina_distributed import _session
if _session._session.connection.rank == 0:  # before the devices are known
    os.kill(_session._session.connection.meeting.pid, signal.SIGKILL)
time.sleep(1)
lamina.devices()""", processes=2),
    "LAM1701": Example("lamina.experimental.checkpointing.CheckpointError", """
import pathlib, tempfile
from lamina.experimental import checkpointing
with tempfile.TemporaryDirectory() as folder:
    checkpointing.save(folder, {"w": jnp.ones(3)}, step=1)
    pathlib.Path(folder, "1.json").write_text("{")
    checkpointing.load(folder)"""),
    "LAM1702": Example("lamina.errors.InconclusiveDimensionOperation", """
from lamina import export
b, = export.symbolic_shape("b")
b > 3"""),
    "LAM1703": Example("lamina.experimental.sparse.SparseEfficiencyError", """
from lamina.experimental import sparse
sparse.bcoo_update_layout(sparse.BCOO.fromdense(jnp.eye(4)), n_dense=1)"""),
    "LAM1704": Example("lamina_see.ReportError", """
import pathlib, tempfile
import lamina_see
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "report.json")
    path.write_text('{"schema_version": 2}')
    lamina_see.load(path)"""),
    "LAM1801": Example("lamina_ir.layers.LayerError", """
from lamina_ir import layers
layers.use(batching="another_package")"""),
    "LAM1900": Example("lamina.errors.SimplifiedTraceback", "", reason="it is never raised"),
    "LAM1901": Example("lamina_compat.names.core.InconclusiveDimensionOperation", "", reason="it is never raised"),
    "LAM2001": Example("builtins.TypeError", "jnp.fft.rfft(1j * jnp.ones(4))"),
    "LAM2002": Example("builtins.ValueError", "jnp.linspace(0, 1, -2)"),
    "LAM2003": Example("builtins.IndexError", "jnp.delete(jnp.ones(3), 7)"),
    "LAM2004": Example("builtins.OverflowError", "jnp.asarray(1 << 40)"),
    "LAM2005": Example("builtins.ZeroDivisionError", """
from lamina import export
b, = export.symbolic_shape("b")
b % 0"""),
    "LAM2006": Example("builtins.NotImplementedError", "jnp.take(jnp.ones(3), 0, mode='raise')"),
    "LAM2007": Example("builtins.AttributeError", "jnp.from_dlpack(1)"),
    "LAM2008": Example("builtins.BufferError", "jnp.from_dlpack(np.array(['2030'], 'M8[D]'))"),
}


def run(code: str) -> Exception:
    """Return the error that the program of a code raises."""
    import lamina
    import lamina.numpy as jnp
    import numpy as np
    try:
        exec(compile(EXAMPLES[code].program, "example.py", "exec"), {"lamina": lamina, "jnp": jnp, "np": np})
    except Exception as error:
        return error
    raise AssertionError(f"{code}: no error")


def messages() -> dict[str, str]:
    """Return the last lines of the traceback of each program of one process. Those that replace jax come last."""
    import re
    import tempfile
    import traceback

    import lamina
    lamina.config.update("num_cpu_devices", 2)
    chosen = [code for code, example in EXAMPLES.items() if example.program and example.processes == 1]
    chosen.sort(key=lambda code: "as_jax" in EXAMPLES[code].program)
    texts = {code: "".join(traceback.format_exception_only(run(code))).strip() for code in chosen}
    folder = rf"{re.escape(tempfile.gettempdir())}[/\\]\w+[/\\]"
    return {code: re.sub(folder, "", text) for code, text in texts.items()}


if __name__ == "__main__":
    print(json.dumps(messages()))
