"""Ops that went through versions: their old files load and mean what they meant; newer ones are refused in one sentence."""
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
    """A program of one equation on constants, as the process that knew this `prim` wrote it."""
    ins, outs = [Var(f32(3)) for _ in args], [Var(f32(3)) for _ in range(results)]
    return dumps(ClosedJaxpr(Jaxpr(ins, [], [Eqn(prim, ins, outs, params)], outs), list(args)))


def op(name, version, params=(), numpy=None, **facts):
    return Primitive(name, infer=twice, numpy=numpy, params=params, version=version, **facts)


def only(data):
    return evaluate(loads(data))[0]


# `slide` came with x and a shift; then got `circular`, with a default; then had its operands turned round,
# and `by` counted from the right.
OLD = [op("slide", 1, ("shift",)), op("slide", 2, ("by", "circular")), op("slide", 3, ("by", "circular"))]
NOW = register_primitive(op("slide", 3, ("by", "circular"), lambda fill, x, by, circular: np.roll(x, by) if circular else
                            np.concatenate([fill[:by], x[:-by]]), defaults={"circular": False}))
upgrades.define(NOW, 1, lambda e: e._replace(params={"by": e.params["shift"], "circular": False}))
upgrades.define(NOW, 2, lambda e: e._replace(invars=e.invars[::-1], params={**e.params, "by": -e.params["by"]}))


def test_one_version_after_the_other():
    slid = np.float32([10, 1, 2])
    assert np.array_equal(only(file_of(OLD[0], X, Y, shift=-1)), slid)
    assert np.array_equal(only(file_of(OLD[1], X, Y, by=-1, circular=False)), slid)
    assert np.array_equal(only(file_of(OLD[2], Y, X, by=1, circular=False)), slid)
    assert np.array_equal(only(file_of(OLD[1], X, Y, by=-1, circular=True)), np.float32([3, 1, 2]))


def test_a_param_with_a_default_needs_no_version():
    before = op("tilted", 1, ("angle",))
    register_primitive(op("tilted", 1, ("angle", "about"), lambda x, angle, about: x * angle + about, defaults={"about": 7}))
    assert np.array_equal(only(file_of(before, X, angle=2)), 2 * X + 7)
    with pytest.raises(ProgramError, match="missing angle"):
        loads(file_of(op("tilted", 1), X))


def test_a_loaded_program_is_saved_with_todays_version():
    data = dumps(loads(file_of(OLD[0], X, Y, shift=-1)))
    assert split_saved(data)[0]["ops"] == {"slide": 3}
    assert np.array_equal(only(data), [10, 1, 2])


def test_files_say_versions_only_where_there_are_some():
    plain, versioned = file_of(prims.sin_p, X), file_of(OLD[1], X, Y, by=1, circular=False)
    assert plain[8] == 1 and "ops" not in split_saved(plain)[0]
    # a reader of format 1 takes all ops for version 1 and would misread it: it must refuse it
    assert versioned[8] == 2
    assert join_saved(*split_saved(versioned)) == versioned and join_saved(*split_saved(plain)) == plain


def test_a_newer_version_is_refused_in_one_sentence():
    with pytest.raises(ProgramError, match=r"^loads: the program uses version 4 of `slide`; this process knows it up to "
                                           r"version 3\. Use a newer version of the package that defines it$"):
        loads(file_of(op("slide", 4, ("by", "circular")), X, Y, by=1, circular=False))
    header, buffers = split_saved(file_of(prims.sin_p, X))
    header["ops"] = {"sin": 2}
    with pytest.raises(ProgramError, match="version 2 of `sin`; this process knows it up to version 1"):
        loads(join_saved(header, buffers))


def test_an_old_version_without_an_upgrade_says_what_to_give():
    register_primitive(op("forgotten", 3))
    with pytest.raises(ProgramError, match=r"version 1 of `forgotten`, which is at version 3 here.*define\('forgotten', 1"):
        loads(file_of(op("forgotten", 1), X))
    upgrades.define("forgotten", 1, lambda e: e)
    with pytest.raises(ProgramError, match="version 2 of `forgotten`"):
        loads(file_of(op("forgotten", 1), X))


def test_an_op_that_is_no_more():
    """Renamed; and taken apart into others, with a result that nothing reads."""
    upgrades.define("sine_of_old", 1, lambda e: e._replace(op="sin"))
    np.testing.assert_allclose(only(file_of(op("sine_of_old", 1), X)), np.sin(X), rtol=1e-6)

    def in_parts(e):
        mid = Var(f32(3))
        return [Eqn(prims.sin_p, [e.invars[0]], [mid], {}), Eqn(prims.mul_p, [mid, e.invars[1]], [e.outvars[0]], {}),
                Eqn(prims.cos_p, [e.invars[0]], [e.outvars[1]], {})]
    upgrades.define("both_of_old", 2, in_parts)
    outs = evaluate(loads(file_of(op("both_of_old", 2, multiple=True), X, Y, results=2)))
    np.testing.assert_allclose(outs, [np.sin(X) * Y, np.cos(X)], rtol=1e-6)


def test_upgraded_equations_keep_their_lines():
    upgrades.define("lined_of_old", 1, lambda e: [Eqn(prims.sin_p, e.invars, e.outvars, {})])
    a, b = Var(f32(3)), Var(f32(3))
    eqn = Eqn(op("lined_of_old", 1), [a], [b], {}, Source.from_line("here.py", 12, "f", "", ""))
    again = loads(dumps(ClosedJaxpr(Jaxpr([], [a], [eqn], [b])), sources=True))
    assert again.eqns[0].primitive is prims.sin_p and again.eqns[0].source.line == 12


def test_upgrades_that_fail_or_go_round():
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


def test_the_table_refuses_what_is_no_upgrade():
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
def test_a_version_is_a_number(version):
    with pytest.raises(ProgramError, match="version: must be an int, 1 or more"):
        Primitive("unversioned", infer=twice, version=version)


@pytest.mark.parametrize("ops", [[], {"sin": "1"}, {"sin": -1}, {"sin": None}, 3, {"sin": 0}])
def test_forged_versions_are_refused(ops):
    header, buffers = split_saved(file_of(prims.sin_p, X))
    header["ops"] = ops
    with pytest.raises(ProgramError, match="loads: "):
        loads(join_saved(header, buffers))
