"""Wrong arguments to every public function raise a clear error: a LaminaError, TypeError or ValueError that names the
argument. Python's own errors about an attribute or key inside the implementation are not allowed.

`CALLS` has a valid call of each function. Each argument is then replaced by unsuitable values, one at a time.
If a value happens to be valid, the call may succeed.
"""
import re
import types

import numpy as np
import pytest

import lamina_ir as ir
from lamina_ir import (LaminaError, Primitive, Var, build, dumps, extend,
                       jaxpr_json, parse, prims, shaped)
from lamina_ir.extend import Grid, RegionView, split_checkpoint, place_map, place_nested_map, make_tiles

X = shaped((3,), "float32")
P = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = mul b 2.0:f32[] in (c,) }")
EQN = P.eqns[0]
STEP = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c, a) }")
LOOP = build(lambda b, c, xs: [v for vs in b.scan(STEP, [c], [xs]) for v in vs], "f32[]", "f32[3]").eqns[0]
BOUNDED = build(lambda b, x: b.while_loop(lambda b, y: b.op("lt", y, 9.0), lambda b, y: b.op("mul", y, 2.0), x, max_iters=4),
                "f32[]").eqns[0]
CALL = build(lambda b, x: b.call(P, x), X)
PMAP = build(lambda b, x: b.op("xla_pmap", x, axis_name="i", axis_size=2, call_jaxpr=P, in_axes=(0,), out_axes=(0,)),
             "f32[2,3]")
_MAP = ("xla_pmap[axis_name=%s axis_size=2 backend=None call_jaxpr=%s devices=None donated_invars=(False,) "
        "global_arg_shapes=(None,) global_axis_size=%d in_axes=(0,) name=f out_axes=(0,)]")
_INNER = _MAP % ("j", "{ lambda ; e:f32[]{i, j}. let f:f32[]{i, j} = sin e in (f,) }", 2)
_OUTER = _MAP % ("i", "{ lambda ; c:f32[2]{i}. let d:f32[2]{i} = %s c in (d,) }" % _INNER, 3)
NEST = parse("{ lambda ; a:f32[2,2]. let b:f32[2,2] = %s a in (b,) }" % _OUTER)
NESTED = place_nested_map(NEST, range(6), range(2, 6))
KEPT = split_checkpoint(P, lambda prim, *avals, **params: prim.name == "sin").recompute
TREE = ir.trees.tree_structure((1, 2))
W = RegionView.of(LOOP)
OP = Primitive("mistaken", infer=lambda x: x)
PLACED = place_map(PMAP, ("d0", "d1"))
ONE = lambda wire, marks: [True] * len(wire.program.out_avals)  # noqa: E731


def call(*args, **kwargs):
    return args, kwargs


# name -> a valid call
CALLS = {
    "alpha_equal": call(P, P), "aval_of": call(np.ones(2)), "build": call(lambda b, x: x, X), "has_host_callbacks": call(P),
    "check": call(P), "cost_by_primitive": call(P, iterations=1), "cse": call(P), "dce": call(P, [True], instantiate=[True]),
    "dumps": call(P), "eqn_axis_names": call(EQN), "eqn_cost": call(EQN, iterations=1), "eqn_has_effects": call(EQN),
    "eqn_text": call(EQN), "evaluate": call(P, np.ones(3)), "evaluate_primitive": call(prims.sin_p, [np.float32(1)], {}),
    "evaluate_spmd": call(P, [("i", 2)], [[np.ones(3)] * 2]), "fold_constants": call(P, limit=3), "mask_checks": call(P),
    "find_unrepeatable_effect": call(P), "has_checks": call(P), "has_ordered_effects": call(P),
    "inline_calls": call(CALL, lambda e: True),
    "jaxpr_dot": call(P, name="f"), "jaxpr_from_json": call(jaxpr_json(P)), "jaxpr_json": call(P), "jaxpr_text": call(P),
    "loads": call(dumps(P)), "thread_iteration_counters": call(P), "has_only_checks": call(P), "parse": call(str(P), []),
    "partial_eval": call(P, [True], instantiate=[True]), "program_cost": call(P, iterations=1),
    "register_param_type": call(type(make_tiles((2,)))),
    "result_type": call(np.int8(1), 2.0), "rewrite": call(P, lambda e: None, nested=True), "split_saved": call(dumps(P)),
    "load_treedefs": call(dumps(P)), "join_saved": call(*ir.split_saved(dumps(P))), "scalar_type_of": call(1),
    "shaped": call((3,), "float32"), "subprograms": call(EQN), "substitute": call(P, {}), "thread_effect_token": call(P),
    "walk": call(P), "ClosedJaxpr": call(P.jaxpr, []), "Jaxpr": call([], P.jaxpr.invars, P.eqns, P.jaxpr.outvars),
    "ShapeDtypeStruct": call((3,), "float32", {"i": 2}), "AxisEnv": call([("i", 2)]), "RuleTable": call("price", "shop/rows"),
    "Primitive": call("name", params=("a",), defaults={"a": 1}, family="x"),
}
CALLS_OF_EXTEND = {
    "as_axis_name": call(("i",)), "as_scan": call(LOOP), "format_axes": call([]), "check_axis_names": call("psum", ("i",)),
    "find_axis_names": call(prims.psum_p, {"axes": ("i",), "axis_index_groups": None}),
    "propagate_backward": call(W, [True, False], lambda wire, marks: [True, True]), "carry_operands": call("n"),
    "check_key_uses": call(P), "check_axis_name": call("psum", "i"), "check_groups": call("psum", 4, [[0, 1], [2, 3]], "i"),
    "check_member_index": call("ppermute", 4, 1, "i"), "check_permutation": call("ppermute", 2, [(0, 1), (1, 0)], "i"),
    "wrap_in_checkpoint": call(P, "f"), "find_compared_values": call(P.eqns), "count_devices": call(P),
    "split_equation": call(LOOP, [(STEP, STEP)], [0, 1], [0, 1], [], []), "explain_mismatch": call(TREE, (1, 2)),
    "propagate_forward": call(W, [True, False], ONE), "has_keys": call(P), "const_operands": call("n"),
    "checkpointed_scan": call(BOUNDED),
    "is_cheap": call(EQN), "split_checkpoint": call(P, None), "find_key_uses": call(P), "single_map_eqn": call(PMAP),
    "single_nested_map_eqn": call(PMAP),
    "place_map": call(PMAP, ("d0", "d1")), "find_shard_maps": call(P), "dce_equation": call(LOOP, [True, False]),
    "first_member_program": call(PMAP, PLACED), "infer_varying_axes": call(P, [frozenset()], frozenset()),
    "lower_keys": call(P),
    "lower_key_aval": call(X), "axis_positions": call([("i", 2)], 1), "check_uniform_control_flow": call(P),
    "register_host_function": call("host_function_of_mistakes", abs), "substitute_saved": call(KEPT, [False, True]),
    "global_axis_size": call(PMAP.eqns[0]), "uses_mapped_axes": call(P), "split_axis_names": call("psum", ("i", 0)),
    "scanned_operands": call("n"), "make_tiles": call((2,)), "exceeds_residual_budget": call(P, 3),
    "format_iterations": call([]),
    "infer_equation_types": call(prims.sin_p, [X], {}, frozenset()),
    "annotate_varying_axes": call(P, [frozenset()], frozenset()),
    "unbound_axis_error": call("i", ["j"]), "observing_equations": call(lambda *_: None),
    "replace_signature": call(P, [(X, 0)], [(X, 0)]),
    "simplify_for_numpy": call(P), "drop_redundant_collectives": call(P, {"i": 2}), "get_key_data": call(np.ones(3)),
    "treedef_to_json": call(TREE),
    "mesh_to_tiles": call((("x", "y"), (2, 2), (0, 1, 2, 3)), (prims.Split(("y",)), None), [0, 1, 2, 3]),
    "place_nested_map": call(NEST, range(6), range(2, 6)), "register_primitive": call(OP),
    "find_per_member_map": call(NEST, NESTED),
    "join_member_tiles": call(NEST, NESTED, [make_tiles((2,))]), "infer_arg_tiles": call(PMAP, Grid(2)),
    "collect_facts": call(P), "RegionView": call(prims.scan_p, LOOP.params, 2),
}
JUNK = {"None": None, "3": 3, "-1": -1, "2.5": 2.5, "text": "x", "bytes": b"x", "object": object(), "[]": [], "{}": {},
        "[None]": [None], "lambda": lambda *args, **kwargs: 0, "array": np.zeros(2), "aval": X, "Jaxpr": STEP.jaxpr,
        "program": STEP, "Eqn": EQN, "Var": Var(X), "Primitive": OP, "type": int}
RAW = re.compile(r"has no attribute|not subscriptable|not iterable|non-iterable|unhashable|not callable|to unpack|__\w+__|"
                 r"cannot be interpreted as|unsupported operand|argument of type|indices must be|not supported between|"
                 r"invalid literal for|has no len|a bytes-like object|must be str, not|not reversible|is not an? \w+ object|"
                 r"arg \d must be|required (?:positional|keyword)|unexpected keyword|truth value of an array|sequence item")
# Functions that are not tested this way, and the reason.
UNTRIED = {
    "no arguments": {"selector_operand", "list_rule_tables", "invalidate_caches", "running_device",
                     "running_iterations", "running_axis_positions"},
    "changes global state": {"set_bind", "register_aval", "register_node_serialization", "set_axis_size_reader",
                             "set_backend"},
    "messages whose arguments come from the library": {"require_versions", "key_reuse_error"},
    "called for every result of every primitive": {"cast_result"},
    "does not check types, for speed": {"make_evaluator"},
    "called when a module is imported, with its own texts": {"docstring_entries", "fill_docstring"},
    "documents its errors; load_treedefs calls it": {"treedef_from_json"},
}
# The result of a function argument is not checked; its consequences are the caller's.
OTHERS = {("propagate_forward", "lambda"), ("propagate_backward", "lambda")}


def is_clear_error(error):
    kind = isinstance(error, (LaminaError, TypeError, ValueError, OverflowError, NotImplementedError))
    bare = isinstance(error, (KeyError, IndexError, AttributeError, AssertionError)) and not isinstance(error, LaminaError)
    return kind and not bare and not RAW.search(str(error))


def calls_with_wrong_argument(args, kwargs):
    """Yield the call with one argument replaced: (which, name of the value, args, kwargs)."""
    for word, junk in JUNK.items():
        for i in range(len(args)):
            yield i, word, (*args[:i], junk, *args[i + 1:]), kwargs
        for key in kwargs:
            yield key, word, args, {**kwargs, key: junk}


def consume(result):
    return list(result) if isinstance(result, types.GeneratorType) else result


@pytest.mark.parametrize("name", [*CALLS, *CALLS_OF_EXTEND])
def test_wrong_arguments_raise_clear_errors(name):
    f = getattr(ir, name) if name in CALLS else getattr(extend, name)
    args, kwargs = {**CALLS_OF_EXTEND, **CALLS}[name]
    consume(f(*args, **kwargs))
    raw = []
    for which, word, some, others in calls_with_wrong_argument(args, kwargs):
        if (name, word) in OTHERS:
            continue
        try:
            consume(f(*some, **others))
        except Exception as error:
            if not is_clear_error(error):
                raw.append(f"{name}: argument {which} = {word}: {type(error).__name__}: {str(error)[:100]}")
    assert not raw, "\n".join(raw)


def test_every_public_function_has_a_call():
    known = {*CALLS, *CALLS_OF_EXTEND}.union(*UNTRIED.values())
    for module in (ir, extend):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, (type, Primitive)):
                assert name in known, name


TEXT = "{ lambda a:f32[] ; b:f32[]. let c:f32[] = add a b in (c,) }"
SENTENCES = [
    (lambda: shaped((3,), "float33"),
     'shaped: expected a dtype such as "float32"; got str: \'float33\'; did you mean \'float32\'\\?'),
    (lambda: shaped((3,), None), 'shaped: expected a dtype such as "float32"; got NoneType'),
    (lambda: shaped("3", "float32"), "shaped: expected a shape, a tuple of ints; got str: '3'"),
    (lambda: shaped((2.5,), "float32"), r"shaped: expected a shape, a tuple of ints; got tuple: \(2.5,\)"),
    (lambda: shaped((2, -1), "float32"), r"shaped: sizes of a shape must be at least 0; got \(2, -1\)"),
    (lambda: ir.evaluate(parse(TEXT), 1.0), "evaluate: expected a ClosedJaxpr; got a Jaxpr that has 1 constants without"),
    (lambda: ir.evaluate(P), "evaluate: the program takes 1 arguments; got 0"),
    (lambda: ir.evaluate(P, np.ones(4)), r"evaluate: argument 0 must be float32\[3\]; got float64\[4\]"),
    (lambda: ir.evaluate("sin", 1), "evaluate: expected a ClosedJaxpr; got str"),
    (lambda: ir.evaluate_primitive("sin", [1.0], {}), "evaluate_primitive: prim must be a Primitive; got str: 'sin'"),
    (lambda: ir.evaluate_primitive(prims.add_p, [1.0], {}), "evaluate_primitive: `add`: it takes 2 operands; got float32"),
    (lambda: ir.evaluate_primitive(prims.reduce_sum_p, [np.ones(3)], {"axis": 0}), "its params are axes; got axis"),
    (lambda: ir.evaluate_spmd(P, 3, []), "AxisEnv: expected .name, size. pairs"),
    (lambda: ir.evaluate_spmd(P, [("i", 2)], [np.float32(1)]),
     "evaluate_spmd: argument 0 must be a list or a tuple; got float32"),
    (lambda: ir.check("sin"), "check: expected a Jaxpr or a ClosedJaxpr; got str"),
    (lambda: ir.walk(None), "walk: program must be a Jaxpr or a ClosedJaxpr; got NoneType: None"),
    (lambda: ir.dce(P, True), "dce: used_outputs must be a list or a tuple, or None; got bool: True"),
    (lambda: ir.dce(P, [True, False]), "dce: used_outputs must have 1 entries, one per result; got 2"),
    (lambda: ir.fold_constants(P.jaxpr), r"fold_constants: program must be a ClosedJaxpr; got Jaxpr: .*ClosedJaxpr\(jax"),
    (lambda: ir.inline_calls(P, 3), "inline_calls: which must be a function; got int: 3"),
    (lambda: ir.rewrite(P, lambda e: 3), "rewrite: the function must return None, .*for `sin` it returned int"),
    (lambda: ir.rewrite(P, lambda e: ([], [])), "rewrite: `sin` has 1 results; the function returned 0 atoms"),
    (lambda: ir.partial_eval(P, [True, False]), "partial_eval: known must have 1 entries"),
    (lambda: parse(b"{ lambda"), "parse: text must be a string; got bytes: b'{ lambda'"),
    (lambda: parse(TEXT, 3), "parse: consts must be a list or a tuple, or None; got int: 3"),
    (lambda: ir.loads("x"), "loads: "), (lambda: ir.dumps(P.jaxpr), "dumps: expected a ClosedJaxpr; got Jaxpr"),
    (lambda: ir.alpha_equal(P, None), "alpha_equal: b must be a Jaxpr or a ClosedJaxpr; got NoneType: None"),
    (lambda: ir.Jaxpr([], 3, [], []), "Jaxpr: invars must be a list; got int: 3"),
    (lambda: ir.Jaxpr([], [], [3], []), "Jaxpr: eqns must hold Eqns; got int: 3"),
    (lambda: ir.ClosedJaxpr(P), "ClosedJaxpr: expected a Jaxpr; got ClosedJaxpr"),
    (lambda: ir.ClosedJaxpr(P.jaxpr, 3), "ClosedJaxpr: consts must be a list; got int: 3"),
    (lambda: ir.subprograms(P), "subprograms: expected an Eqn; got ClosedJaxpr"),
    (lambda: ir.ShapeDtypeStruct(3, "float32"), "ShapeDtypeStruct: expected a shape, a tuple of ints"),
    (lambda: ir.register_aval(3, 4), "register_aval: expected a class and a function; got int: 3 and int: 4"),
    (lambda: extend.infer_equation_types(prims.add_p, [X], {}, frozenset()),
     r"infer_equation_types: `add`: it takes 2 operands; got f"),
    (lambda: RegionView(prims.sin_p, {}, 1), "RegionView: prim must be a primitive with regions; got Primitive: sin"),
    (lambda: extend.as_scan(EQN), "as_scan: e must be an equation of a loop; got Eqn"),
    (lambda: extend.checkpointed_scan(LOOP), "checkpointed_scan: e must be an equation of a loop with a bound; got Eqn"),
    (lambda: extend.propagate_forward(W, [True], ONE),
     "propagate_forward: marks must have 2 entries, one for each operand; got"),
    (lambda: extend.observing_equations(None), "observing_equations: callback must be a function; got NoneType: None"),
    (lambda: extend.lower_key_aval("f32"), "lower_key_aval: aval must be a ShapedArray; got str: 'f32'"),
]


@pytest.mark.parametrize("case", SENTENCES, ids=[words[:50] for _, words in SENTENCES])
def test_error_messages(case):
    call, words = case
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        call()
    assert is_clear_error(caught.value)
