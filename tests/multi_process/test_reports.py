"""Reports of several processes: process 0 has the instructions of all."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

PROGRAM = """
import lamina.numpy as jnp
from lamina import P
mesh = lamina.make_mesh((lamina.device_count(),), ("i",))
sharding = lamina.NamedSharding(mesh, P("i"))
x = lamina.make_array_from_callback((16, 64), sharding, lambda at: np.ones((16, 64), "f")[at])
f = lamina.jit(lambda x: (jnp.tanh(x @ x.T)).sum())
facts = lamina.see(f)(x).json()
assert facts["processes"] == 2 and facts["functions"][0]["step"]["runs"] == 5
devices = {(row["process"], row["device"]) for row in facts["timeline"]}
every = {(d["process"], d["id"]) for d in facts["devices"]}
assert devices == (every if lamina.process_index() == 0 else {d for d in every if d[0] == 1}), (devices, every)
lamina.see(lamina.jit(lambda x: x * 2, donate_argnums=0))(x)
assert not x.is_deleted()
"""

NUMBERS = """
import lamina.numpy as jnp
from lamina import P
mesh = lamina.make_mesh((lamina.device_count(),), ("i",))
sharding = lamina.NamedSharding(mesh, P("i"))
value = np.ones((16, 4), "f")
value[13, 2] = -1  # on a device of process 1
x = lamina.make_array_from_callback((16, 4), sharding, lambda at: value[at])

def f(x):
    y = x * 2
    return jnp.log(y) + 1

facts = lamina.see(f, precision=True)(x).json()
assert facts["nonfinite"]["kind"] == "nan" and facts["nonfinite"]["before"][0]["summary"] == "from -2 to 2", facts["nonfinite"]
assert facts["precision"] and facts["problems"] == [], facts["problems"]
mapped = lamina.see(lamina.pmap(jnp.log), nonfinite=True)(-np.ones((lamina.local_device_count(), 2), "f")).json()
assert mapped["nonfinite"] is None and "each process passes the arguments" in mapped["problems"][0]
"""


def test_nan_of_one_process_and_precision_are_found_by_all():
    run(NUMBERS, 2)


def test_timeline_has_the_devices_of_all_processes():
    run(PROGRAM, 2)


SHADOW = """
import lamina.numpy as jnp
from lamina import P, replay
from lamina_ir import prims
from lamina_lowering.extend import lowering_rules
mesh = lamina.make_mesh((lamina.device_count(),), ("i",))
whole = np.arange(16, dtype="f").reshape(8, 2)
x = lamina.make_array_from_callback((8, 2), lamina.NamedSharding(mesh, P("i")), lambda at: whole[at])
mapped = lamina.shard_map(lambda x: lamina.lax.psum(jnp.sin(x).sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
programs = lambda: (lamina.jit(lambda x: (jnp.sin(x) * jnp.cos(x)).sum(0)), lamina.jit(mapped),
                    lamina.jit(lambda x: jnp.sin(x), donate_argnums=0))
with replay.shadow_every(1):
    for f in programs():
        f(x + 0)
wrong = lambda ctx, x: ctx.op("stablehlo.cosine", (x,), ctx.aval_out)
with lowering_rules.override(prims.sin_p, wrong):
    for f in programs():
        with replay.shadow_every(1):
            expect_error(replay.DifferenceError, "`sin` gives", f, x + 0)
"""


def test_shadow_mode_compares_programs_over_processes():
    run(SHADOW, 2)
