"""Errors inside maps, loops and batches name line, device, index on every axis, process and iteration: NaNs, infinities, checks
and indices out of bounds. In one process, and in several, where the fault is in one process and all raise."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

CASES = """
import re
import lamina.numpy as jnp
from lamina import checkpoint, custom_jvp, custom_vjp, jit, lax, pmap, value_and_grad, vmap
from lamina.experimental.maps import Mesh, xmap

table = jnp.arange(3.0)
FAULTS = {
    "nan": lambda v: jnp.log(v),  # line of nan
    "inf": lambda v: 1.0 / v,  # line of inf
    "check": lambda v: (lamina.debug.check(v > 0, "v = {}", v), v)[1],  # line of check
    "bounds": lambda v: v * table[(v < 0) * 7],  # line of bounds
}
ON = {"nan": lamina.debug_nans, "inf": lamina.debug_infs, "bounds": lamina.debug_bounds,
      "check": lambda on: lamina.debug_nans(False)}
SAYS = {"nan": (FloatingPointError, "`log` produced a NaN"), "inf": (FloatingPointError, "`div` produced an infinity"),
        "check": (lamina.errors.CheckError, "debug.check: v = -1.0"),
        "bounds": (IndexError, "index 7 is out of bounds for axis 0 of size 3")}
text = CASES.splitlines()

def bodies(f, last):
    steps = jnp.array([0.0, 0.5, last])  # a member of 1 fails in iteration 2, one of 10 never

    def scanned(x):
        return lax.scan(lambda c, a: (c, f(c - a)), x, steps)[1].sum()

    def looped(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + f(x - steps[c[0]])), (0, x))[1]

    def chosen(x):
        return lax.cond(x > 0, lambda: f(x - last), lambda: x)

    @custom_vjp
    def with_vjp(x):
        return f(x - last)

    with_vjp.defvjp(lambda x: (f(x - last), x), lambda x, t: (t * x,))

    @custom_jvp
    def with_jvp(x):
        return f(x - last)

    with_jvp.defjvp(lambda xs, ts: (f(xs[0] - last), ts[0]))

    def derivative(f):
        return lambda x: sum(map(jnp.abs, value_and_grad(f)(x)))

    def pair(x):  # the second example fails if the member does
        return jnp.stack([x + 10, x])

    return {
        "scan": (scanned, ["at index 2 of the scan"]),
        "reverse": (lambda x: lax.scan(lambda c, a: (c, f(c - a)), x, steps, reverse=True)[1].sum(),
                    ["at index 2 of the scan"]),
        "while": (looped, ["at index 2 of the while"]),
        "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + f(x - steps[i]), x), ["at index 2 of the "]),
        "scan in scan": (lambda x: lax.scan(lambda c, _: (c, scanned(c)), x, None, length=2)[1].sum(),
                         ["at index 2 of the scan", "at index 0 of the scan"]),
        "cond": (chosen, []),
        "cond in while": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + chosen(x + 9 * (i < 2)), x),
                          ["at index 2 of the "]),
        "vmap": (lambda x: vmap(lambda v: f(v - last), axis_name="b")(pair(x)).sum(), ["index 1 of axis 'b' of 2"]),
        "vmap of scan": (lambda x: vmap(scanned)(pair(x)).sum(), ["index 1 of the batch of 2", "at index 2 of the scan"]),
        "scan of vmap": (lambda x: lax.scan(lambda c, a: (c, vmap(f, axis_name="b")(c - a)), pair(x), steps)[1].sum(),
                         ["index 1 of axis 'b' of 2", "at index 2 of the scan"]),
        "vmap of cond": (lambda x: vmap(lambda v: lax.cond(v < 5, f, jnp.abs, v - last))(pair(x)).sum(), []),
        "jit": (jit(lambda x: jit(scanned)(x) * 2), ["at index 2 of the scan"]),
        "grad": (derivative(scanned), ["at index 2 of the scan"]),
        "grad of vmap": (derivative(lambda x: vmap(lambda v: f(v - last), axis_name="b")(pair(x)).sum()),
                         ["index 1 of axis 'b' of 2"]),
        "checkpoint": (derivative(checkpoint(scanned)), ["at index 2 of the scan"]),
        "custom_vjp": (derivative(with_vjp), []),
        "custom_jvp": (derivative(with_jvp), []),
        "psum": (lambda x: lax.psum(f(x - last), "i"), []),
        "psum in scan": (lambda x: lax.scan(lambda c, a: (c, lax.psum(f(c - a), "i")), x, steps)[1].sum(),
                         ["at index 2 of the scan"]),
    }

def outer(body):
    mapped = pmap(body, axis_name="i")
    return {
        "pmap": mapped,
        "jit(pmap)": jit(mapped),
        "with other work": jit(lambda x: mapped(x * 1.0) * 2),
        "in scan": jit(lambda x: lax.scan(lambda c, _: (c, mapped(c)), x, None, length=2)[1]),
        "xmap": (over := xmap(body, {0: "i"}, {0: "i"}, axis_resources={"i": "x"})),
        "xmap with other work": jit(lambda x: over(x * 1.0) * 2),
    }

every = np.full(rows, 10, np.float32)
every[-1] = 1
last_device = lamina.devices()[-1]
seen, wrong = 0, []

def check_error(kind, name, where, f, x, expected):
    global seen
    seen += 1
    line = next(i for i, t in enumerate(text, OFFSET) if f"line of {kind}" in t)
    expected = [SAYS[kind][1], f":{line} (<lambda>)", f"on device {last_device}", *expected]
    if processes > 1:
        expected.append(f"in process {processes - 1}")
    try:
        with ON[kind](True):
            out = f(x)
            np.asarray(out)
    except SAYS[kind][0] as e:
        missing = [t for t in expected if t not in str(e)]
        if missing:
            wrong.append((kind, name, where, missing, str(e)))
    except Exception as e:
        wrong.append((kind, name, where, repr(e)))
    else:
        wrong.append((kind, name, where, "no error", out))

def all_cases(kinds, names, wheres):
    for kind in kinds:
        made = bodies(FAULTS[kind], 1.0 if kind == "inf" else 2.0)
        for name in names or made:
            body, expected = made[name]
            for where, f in outer(body).items():
                if where in wheres:
                    more = [f"index {rows - 1} of axis {'x' if 'xmap' in where else 'i'!r} of {rows}"]
                    if where == "in scan":
                        more.append("at index 0 of the scan")
                    check_error(kind, name, where, f, every[mine], [*expected, *more])

def nested(kinds):
    for kind in kinds:
        f, last = FAULTS[kind], 1.0 if kind == "inf" else 2.0
        pairs = np.full((rows // 2, 2), 10, np.float32)
        pairs[-1, -1] = 1
        own = slice(mine.start // 2, mine.stop // 2)
        inner = pmap(lambda x: lax.scan(lambda c, a: (c, f(c - a) + lax.axis_index("j")), x, jnp.array([0, last]))[1], "j")
        for where, g in (("pmap", pmap(inner, "i")), ("with other work", jit(lambda x: pmap(inner, "i")(x * 1) * 2))):
            check_error(kind, "nested", where, g, pairs[own], [
                f"index {rows // 2 - 1} of axis 'i' of {rows // 2}, index 1 of axis 'j' of 2", "at index 1 of the scan"])
"""
MAIN = """
OFFSET = 1
wide, kinds = WIDE, KINDS
if wide:
    all_cases(kinds, None, ("pmap", "jit(pmap)", "with other work", "in scan"))
else:
    all_cases(("nan", "bounds"), ("psum in scan", "vmap of scan"), ("pmap", "with other work"))
    all_cases(("inf", "check"), ("scan of vmap",), ("jit(pmap)", "in scan"))
with Mesh(lamina.devices(), "x"):
    all_cases(kinds if wide else ("nan", "check"), None if wide else ("vmap of scan",), ("xmap", "xmap with other work"))
if rows // processes > 1:
    nested(kinds if wide else ("nan", "check"))
from lamina_runtime._sharding.shardings import mapped_sharding
whole = lamina.device_put(every, mapped_sharding(tuple(lamina.devices()), 1, ((0, rows),)))  # over all devices, and donated
try:
    with lamina.debug_nans(True):
        jit(lambda a: FAULTS["nan"](a - 2.0) * 2, donate_argnums=0)(whole)
except FloatingPointError as e:
    assert SAYS["nan"][1] in str(e) and "(<lambda>)" in str(e) and whole.is_deleted(), e
else:
    wrong.append("no error with donated arguments")
y = pmap(lambda x: lax.psum(x, "i"), "i")(every[mine])  # no process is blocked
assert float(y[0]) == every.sum()
assert not wrong, wrong
print("done")
"""
WIDE = bool(os.environ.get("LAMINA_WIDE"))
KINDS = ("nan", "inf", "check", "bounds")


def program(offset, kinds=KINDS):
    """Return the text of the cases for a file in which their first line is line `offset`."""
    text = f"CASES = {CASES!r}\n{CASES}{MAIN}".replace("OFFSET = 1", f"OFFSET = {offset}")
    return text.replace("WIDE, KINDS", f"{WIDE}, {kinds!r}")


def test_error_locations_in_one_process():
    import lamina
    import numpy as np
    rows = len(lamina.devices())
    exec(compile(program(2), "<located>", "exec"), {"lamina": lamina, "np": np, "rows": rows, "processes": 1, "rank": 0,
                                                    "mine": slice(0, rows)})


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(kind,) for kind in KINDS] if WIDE else [KINDS], ids="-".join)
@pytest.mark.parametrize("processes, devices", [(2, 2)] + [(3, 1), (2, 4)] * WIDE)
def test_error_locations_over_processes(processes, devices, kinds):
    import processes as harness
    text = program(len(harness.START.splitlines()) + 2, kinds)
    assert all(t.endswith("done") for t in run(text, processes, devices))
