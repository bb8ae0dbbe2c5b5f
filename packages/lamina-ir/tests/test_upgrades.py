"""Primitives with several versions: old files load with the old results; newer files are rejected."""
import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Primitive, ProgramError, Source, Var, dumps, evaluate, loads, prims,
                       split_saved, join_saved)
from lamina_ir.extend import SavedEqn, UpgradeTable, register_primitive, upgrades
from lamina_ir.testing.programs import f32

X, Y = np.float32([1, 2, 3]), np.float32([10, 20, 30])


def twice(x, *rest, **params):
    return x


def file_of(prim, *args, results=1, source=False, **params):
    """Return the file of a one-equation program on constants, as written by a process with this version of `prim`."""
    ins, outs = [Var(f32(3)) for _ in args], [Var(f32(3)) for _ in range(results)]
    return dumps(ClosedJaxpr(Jaxpr(ins, [], [Eqn(prim, ins, outs, params)], outs), list(args)))


def op(name, version, params=(), numpy=None, **facts):
    return Primitive(name, infer=twice, numpy=numpy, params=params, version=version, **facts)


def load_and_evaluate(data):
    return evaluate(loads(data))[0]


# `slide` began with x and a shift; then gained `circular`, with a default; then its operands were swapped,
# and `by` counted from the right.
OLD = [op("slide", 1, ("shift",)), op("slide", 2, ("by", "circular")), op("slide", 3, ("by", "circular"))]
NOW = register_primitive(op("slide", 3, ("by", "circular"), lambda fill, x, by, circular: np.roll(x, by) if circular else
                            np.concatenate([fill[:by], x[:-by]]), defaults={"circular": False}))
upgrades.define(NOW, 1, lambda e: e._replace(params={"by": e.params["shift"], "circular": False}))
upgrades.define(NOW, 2, lambda e: e._replace(invars=e.invars[::-1], params={**e.params, "by": -e.params["by"]}))


def test_upgrades_are_applied_in_order():
    slid = np.float32([10, 1, 2])
    assert np.array_equal(load_and_evaluate(file_of(OLD[0], X, Y, shift=-1)), slid)
    assert np.array_equal(load_and_evaluate(file_of(OLD[1], X, Y, by=-1, circular=False)), slid)
    assert np.array_equal(load_and_evaluate(file_of(OLD[2], Y, X, by=1, circular=False)), slid)
    assert np.array_equal(load_and_evaluate(file_of(OLD[1], X, Y, by=-1, circular=True)), np.float32([3, 1, 2]))


def test_new_param_with_default_needs_no_upgrade():
    before = op("tilted", 1, ("angle",))
    register_primitive(op("tilted", 1, ("angle", "about"), lambda x, angle, about: x * angle + about, defaults={"about": 7}))
    assert np.array_equal(load_and_evaluate(file_of(before, X, angle=2)), 2 * X + 7)
    with pytest.raises(ProgramError, match="missing angle"):
        loads(file_of(op("tilted", 1), X))


def test_loaded_program_is_saved_with_current_version():
    data = dumps(loads(file_of(OLD[0], X, Y, shift=-1)))
    assert split_saved(data)[0]["ops"] == {"slide": 3}
    assert np.array_equal(load_and_evaluate(data), [10, 1, 2])


def test_files_store_versions_only_if_not_1():
    plain, versioned = file_of(prims.sin_p, X), file_of(OLD[1], X, Y, by=1, circular=False)
    assert plain[8] == 1 and "ops" not in split_saved(plain)[0]
    # a reader of format 1 assumes version 1 for every primitive, so it must reject this file
    assert versioned[8] == 2
    assert join_saved(*split_saved(versioned)) == versioned and join_saved(*split_saved(plain)) == plain


def test_newer_version_is_rejected():
    with pytest.raises(ProgramError, match=r"^loads: the program uses version 4 of `slide`; this process knows it up to "
                                           r"version 3\. Use a newer version of the package that defines it(?m:$)"):
        loads(file_of(op("slide", 4, ("by", "circular")), X, Y, by=1, circular=False))
    header, buffers = split_saved(file_of(prims.sin_p, X))
    header["ops"] = {"sin": 2}
    with pytest.raises(ProgramError, match="version 2 of `sin`; this process knows it up to version 1"):
        loads(join_saved(header, buffers))


def test_missing_upgrade_error_names_the_fix():
    register_primitive(op("forgotten", 3))
    with pytest.raises(ProgramError, match=r"version 1 of `forgotten`, which is at version 3 here.*define\('forgotten', 1"):
        loads(file_of(op("forgotten", 1), X))
    upgrades.define("forgotten", 1, lambda e: e)
    with pytest.raises(ProgramError, match="version 2 of `forgotten`"):
        loads(file_of(op("forgotten", 1), X))


def test_removed_primitive_is_upgraded():
    """By renaming; and by decomposition into others, with an unused result."""
    upgrades.define("sine_of_old", 1, lambda e: e._replace(op="sin"))
    np.testing.assert_allclose(load_and_evaluate(file_of(op("sine_of_old", 1), X)), np.sin(X), rtol=1e-6)

    def in_parts(e):
        mid = Var(f32(3))
        return [Eqn(prims.sin_p, [e.invars[0]], [mid], {}), Eqn(prims.mul_p, [mid, e.invars[1]], [e.outvars[0]], {}),
                Eqn(prims.cos_p, [e.invars[0]], [e.outvars[1]], {})]
    upgrades.define("both_of_old", 2, in_parts)
    outs = evaluate(loads(file_of(op("both_of_old", 2, multiple=True), X, Y, results=2)))
    np.testing.assert_allclose(outs, [np.sin(X) * Y, np.cos(X)], rtol=1e-6)


def test_upgraded_equations_keep_source_lines():
    upgrades.define("lined_of_old", 1, lambda e: [Eqn(prims.sin_p, e.invars, e.outvars, {})])
    a, b = Var(f32(3)), Var(f32(3))
    eqn = Eqn(op("lined_of_old", 1), [a], [b], {}, Source.from_line("here.py", 12, "f", "", ""))
    again = loads(dumps(ClosedJaxpr(Jaxpr([], [a], [eqn], [b])), sources=True))
    assert again.eqns[0].primitive is prims.sin_p and again.eqns[0].source.line == 12


def test_failing_and_cyclic_upgrades_are_reported():
    wrong = op("broken_of_old", 1, ("n",))
    upgrades.define("broken_of_old", 1, lambda e: e.params["m"])
    with pytest.raises(ProgramError, match="the upgrade of version 1 of `broken_of_old` failed: KeyError"):
        loads(file_of(wrong, X, n=1))
    upgrades.define("odd_of_old", 1, lambda e: 3)
    with pytest.raises(ProgramError, match="must give a SavedEqn or a list of Eqn; got int"):
        loads(file_of(op("odd_of_old", 1), X))
    upgrades.define("round_of_old", 1, lambda e: e._replace(version=2))
    upgrades.define("round_of_old", 2, lambda e: e._replace(version=1))
    with pytest.raises(ProgramError, match="`round_of_old`, which is not known here"):
        loads(file_of(op("round_of_old", 1), X))
    upgrades.define("unbound_of_old", 1, lambda e: [])
    with pytest.raises(ProgramError, match="check: .*not bound"):
        loads(file_of(op("unbound_of_old", 1), X))


def test_upgrade_table_rejects_non_upgrades():
    table = UpgradeTable()
    with pytest.raises(TypeError, match="expected a Primitive or the name of one; got 3"):
        table.define(3, 1, lambda e: e)
    with pytest.raises(TypeError, match="expected a function"):
        table.define("slide", 1, None)
    for version in (0, 3, 4, True, "1"):
        with pytest.raises(ValueError, match="number of an older version"):
            table.define(NOW, version, lambda e: e)
    table.define(NOW, 1, lambda e: e)
    with pytest.raises(ValueError, match="has an upgrade already"):
        table.define("slide", 1, lambda e: e)
    assert table.step("slide", 2) is None and isinstance(SavedEqn("slide", 1, (), (), {}), tuple)


@pytest.mark.parametrize("version", [0, -1, "2", 1.5, True])
def test_version_must_be_an_integer(version):
    with pytest.raises(ProgramError, match="version: must be an int, 1 or more"):
        Primitive("unversioned", infer=twice, version=version)


@pytest.mark.parametrize("ops", [[], {"sin": "1"}, {"sin": -1}, {"sin": None}, 3, {"sin": 0}])
def test_forged_versions_are_rejected(ops):
    header, buffers = split_saved(file_of(prims.sin_p, X))
    header["ops"] = ops
    with pytest.raises(ProgramError, match="loads: "):
        loads(join_saved(header, buffers))
