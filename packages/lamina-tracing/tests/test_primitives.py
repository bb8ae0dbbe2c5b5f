"""Programs that process jaxprs: primitives by name, the usual loop over equations, new primitives."""
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Literal, MissingRuleError, Primitive, ProgramError, prims
from lamina_tracing import debug, eval_shape, io_callback, jit, lax, make_jaxpr, primitives
from lamina_tracing.extend import typeof

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def interpret(closed, *args):
    """Evaluate a jaxpr with the loop found in tutorials."""
    env = dict(zip(closed.jaxpr.constvars, closed.literals))
    env.update(zip(closed.jaxpr.invars, args))

    def read(v):
        return v.val if isinstance(v, Literal) else env[v]

    for eqn in closed.jaxpr.eqns:
        functions, params = eqn.primitive.get_bind_params(eqn.params)
        with eqn.ctx.manager:
            out = eqn.primitive.bind(*functions, *map(read, eqn.invars), **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [read(v) for v in closed.jaxpr.outvars]


def loops(x):
    total, rows = lax.scan(lambda c, r: (lax.add(c, r), lax.sin(c)), lax.full((3,), 0.0), x)
    big = lax.while_loop(lambda c: lax.lt(c, 9.0), lambda c: lax.mul(c, 3.0), 1.0)
    return lax.cond(True, lambda r: lax.mul(r, big), lax.neg, rows), jit(lax.exp)(total)


def test_tutorial_interpreter_evaluates_programs():
    closed = make_jaxpr(loops)(X)
    wanted = [np.asarray(v) for v in loops(X)]
    for got in (interpret(closed, X), jit(lambda x: interpret(closed, x))(X)):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)
    assert [e.primitive.name for e in closed.eqns if e.primitive.call_primitive] == ["xla_call"]


def test_jaxpr_effects_and_replace():
    def f(x):
        debug.print("{}", x, ordered=True)
        return jit(lambda y: io_callback(lambda v: v, y, y))(lax.sin(x))

    closed = make_jaxpr(f)(np.float32(1))
    assert {(type(e).__name__, e.ordered) for e in closed.effects} == {("DebugEffect", True), ("IOEffect", False)}
    assert not make_jaxpr(lax.sin)(1.0).effects
    sin = make_jaxpr(lambda x: lax.sin(x))(1.0)
    cos = sin.map_jaxpr(lambda j: j.replace(eqns=[j.eqns[0].replace(primitive=prims.cos_p)]))
    assert "cos" in cos.pretty_print() and float(interpret(cos, np.float32(0))[0]) == 1
    assert "test_primitives.py" in sin.pretty_print(source_info=True, use_color=False) and str(sin) == sin.pretty_print()
    assert sin.replace(consts=[]).jaxpr is sin.jaxpr and isinstance(sin, ClosedJaxpr)
    with pytest.raises(TypeError, match="no option colour"):
        sin.pretty_print(colour=True)
    with pytest.raises(ValueError, match="print_shapes"):
        sin.pretty_print(print_shapes=False)


def test_primitive_can_be_created_by_name():
    twice_p = Primitive("twice_here")
    twice_p.multiple_results = True
    with pytest.raises(MissingRuleError, match="def_abstract_eval"):
        make_jaxpr(twice_p.bind)(1.0)
    twice_p.def_impl(lambda x: (2 * x, x))
    twice_p.def_abstract_eval(lambda x: (x, x))
    assert [int(v) for v in twice_p.bind(np.int32(2))] == [4, 2]
    assert [e.primitive for e in make_jaxpr(lambda x: twice_p.bind(x))(np.int32(2)).eqns] == [twice_p]


def test_names_of_composite_primitives():
    p, nan, zero = primitives, np.float32(np.nan), np.float32(0)
    assert bool(p.eq_to_p.bind(nan, nan)) and bool(p.lt_to_p.bind(-zero, zero)) and not p.le_to_p.bind(zero, -zero)
    assert bool(p.lt_to_p.bind(np.float32(np.inf), nan)) and bool(p.lt_to_p.bind(np.float32(-2), np.float32(-1)))
    assert p.select_n_p.bind(np.array([0, 1]), np.array([1, 2]), np.array([3, 4])).tolist() == [1, 4]
    values, places = p.approx_top_k_p.bind(X, k=1, reduction_dimension=-1, is_max_k=False)
    assert values.tolist() == [[0], [3]] and places.tolist() == [[0], [0]]
    np.testing.assert_allclose(np.asarray(p.cumlogsumexp_p.bind(X, axis=1, reverse=False)),
                               np.logaddexp.accumulate(X, 1), rtol=1e-6)
    assert p.zeros_like_p.bind(X).tolist() == [[0] * 3] * 2 and p.call_p is p.xla_call_p
    assert p.cumlogsumexp_p.abstract_eval(typeof(X), axis=1, reverse=False).shape == (2, 3)
    assert p.after_all_p.bind(p.create_token_p.bind()).block_until_ready() == lax.create_token()
    with pytest.raises(NotImplementedError, match="io_callback"):
        p.infeed_p.bind(lax.create_token(), shape=None)
    ops = [n for n in p.__all__ if n.endswith("_p")]
    assert len(ops) == len(set(ops)) and all(isinstance(getattr(p, n), Primitive) for n in ops)


def test_select_and_scatter_with_any_elementwise_programs():
    f32 = np.float32(0)
    ge, mul, less = (make_jaxpr(f)(f32, f32) for f in (lax.ge, lax.mul, lax.lt))
    how = dict(window_dimensions=(1, 2), window_strides=(1, 1), padding=((0, 0), (0, 0)))
    source = np.float32([[2, 3], [5, 7]])
    out = primitives.select_and_scatter_p.bind(X, source, np.float32(1), select_jaxpr=ge, scatter_jaxpr=mul, **how)
    assert out.tolist() == [[1, 2, 3], [1, 5, 7]]
    out = primitives.select_and_scatter_p.bind(X, source, np.float32(1), select_jaxpr=less.jaxpr, scatter_jaxpr=mul, **how)
    assert out.tolist() == [[2, 3, 1], [5, 7, 1]]
    padded = {**how, "padding": ((0, 0), (1, 1)), "window_strides": (1, 3)}
    assert eval_shape(lambda x: primitives.select_and_scatter_p.bind(x, source, f32, select_jaxpr=ge, scatter_jaxpr=mul,
                                                                     **padded), X).shape == (2, 3)
    out = primitives.select_and_scatter_p.bind(-1 - X, source, np.float32(1), select_jaxpr=ge, scatter_jaxpr=mul, **padded)
    assert out.tolist() == [[2, 1, 3], [5, 1, 7]]
    with pytest.raises(ProgramError, match="elementwise"):
        primitives.select_and_scatter_p.bind(X, source, f32, scatter_jaxpr=mul, **how,
                                             select_jaxpr=make_jaxpr(lambda x, y: lax.full((2,), x))(f32, f32))


def test_names_for_type_checkers_equal_all():
    import ast
    import inspect

    from lamina_tracing import primitives
    written = [node.body[0].value for node in ast.parse(inspect.getsource(primitives)).body
               if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    assert sorted(ast.literal_eval(written[0])) == sorted(primitives.__all__)


def test_several_results_of_bind_are_a_list():
    pair_p = Primitive("pair", multiple=True)
    pair_p.def_impl(lambda x: (x, x + 1))
    pair_p.def_abstract_eval(lambda x: (x, x))
    kinds = []

    def f(x):
        outs = pair_p.bind(x)
        kinds.append(type(outs))
        assert outs + [3] == [*outs, 3]
        return x

    eval_shape(f, 1.0)
    f(np.float32(1))
    assert kinds == [list, list]
    assert type(prims.top_k_p.bind(X, axis=1, k=1)) is list
