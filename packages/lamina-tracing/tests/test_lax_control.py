"""Control flow functions: results, carry types, number of tracings, and errors that show both trees."""
import numpy as np
import pytest
from lamina_tracing import disable_jit, jit, lax, make_jaxpr


def total(c, x):
    return c + x, c * 2


XS = np.arange(4, dtype=np.float32)


# --- branches ---
@pytest.mark.parametrize("pred", [True, False, np.bool_(True), 3, 0, 2.5, np.float32(0)])
def test_cond_with_and_without_operands(pred):
    wanted = 4.0 if pred else 2.0
    assert lax.cond(pred, lambda x: x + 1, lambda x: x - 1, 3.0) == wanted
    assert lax.cond(pred, lambda x: x + 1, lambda x: x - 1, operand=3.0) == wanted
    assert lax.cond(pred, true_fun=lambda x: x + 1, false_fun=lambda x: x - 1, operand=3.0) == wanted
    assert lax.cond(pred, 4.0, lambda x: x, 1.0, lambda x: x + 1) == wanted
    assert lax.cond(pred, true_operand=4.0, true_fun=lambda x: x, false_operand=1.0,
                    false_fun=lambda x: x + 1) == wanted
    assert lax.cond(pred, lambda: 4.0, lambda: 2.0) == wanted


def test_cond_of_trees():
    out = lax.cond(True, lambda a, b: {"s": a["x"] + b, "n": None}, lambda a, b: {"s": b, "n": None}, {"x": 1.0}, 2.0)
    assert out == {"s": 3.0, "n": None}


def test_cond_closes_over_traced_values():
    def f(p, x, w):
        return lax.cond(p, lambda y: y * w, lambda y: y + x, x)
    program = make_jaxpr(f)(True, 2.0, 3.0)
    assert [e.primitive.name for e in program.eqns] == ["convert_element_type", "cond"]
    assert jit(f)(True, 2.0, 3.0) == 6 and jit(f)(False, 2.0, 3.0) == 4


@pytest.mark.parametrize("index, wanted", [(-3, 2), (0, 2), (1, 4), (2, 8), (9, 8), (np.uint8(200), 8)])
def test_switch_clamps(index, wanted):
    assert lax.switch(index, [lambda x: x, lambda x: x * 2, lambda x: x * 4], 2.0) == wanted
    assert jit(lambda i: lax.switch(i, [lambda x: x, lambda x: x * 2, lambda x: x * 4], 2.0))(index) == wanted


def test_switch_with_one_branch_and_without_branches():
    assert lax.switch(7, [lambda x: x + 1], 1) == 2
    with pytest.raises(ValueError, match="at least one"):
        lax.switch(0, [], 1)


@pytest.mark.parametrize("call, error, text", [
    (lambda: lax.cond(np.ones(2), lambda: 1, lambda: 2), TypeError, r"pred must be a scalar; got float32\[2\]"),
    (lambda: lax.cond("yes", lambda: 1, lambda: 2), TypeError, "boolean scalar; got str"),
    (lambda: lax.cond(True, lambda x: x, 3, 4), TypeError, "false_fun must be a function; got int"),
    (lambda: lax.cond(True), TypeError, "true_fun, false_fun"),
    (lambda: lax.cond(True, lambda x: x, lambda x: (x,), 4), TypeError, r"differ at result:\n(.*\n)*  >  \(whole\)"),
    (lambda: lax.cond(True, lambda: 1, lambda: 1.0), TypeError,
     r"true_fun +false_fun\n  > +\(whole\) +int32\[\] +float32\[\]"),
    (lambda: lax.switch(0, [lambda: 1, lambda: {"a": 1}]), TypeError, r"branches\[0\] +branches\[1\]"),
    (lambda: lax.switch(0.5, [lambda: 1, lambda: 2]), TypeError, "integer scalar"),
    (lambda: lax.cond(True, lambda x: x, lambda x: x, "s"), TypeError, r"operands\[0\]"),
    (lambda: lax.cond(True, lambda: "s", lambda: "t"), TypeError, "returned str"),
])
def test_wrong_branches_are_rejected(call, error, text):
    with pytest.raises(error, match=text):
        call()


# --- scan ---
def test_scan_options():
    carry, ys = lax.scan(total, 0.0, XS)
    assert carry == 6 and ys.tolist() == [0, 0, 2, 6]
    carry, ys = lax.scan(total, 0.0, XS, reverse=True)
    assert carry == 6 and ys.tolist() == [12, 10, 6, 0]
    for unroll in (2, 3, 4, 9, True):
        assert lax.scan(total, 0.0, XS, unroll=unroll)[1].tolist() == [0, 0, 2, 6]
    assert lax.scan(lambda c, x: (c * 2, None), 1, None, length=5) == (32, None)
    assert lax.scan(lambda c, x: (c, {"y": x["a"] + x["b"]}), (), {"a": XS, "b": XS})[1]["y"].tolist() == [0, 2, 4, 6]
    assert lax.scan(total, 0.0, XS[:0])[1].shape == (0,)


def test_program_size_does_not_depend_on_length():
    short, long = (str(make_jaxpr(lambda x: lax.scan(total, 0.0, x))(np.zeros(n, np.float32))) for n in (10, 10_000))
    assert short == long.replace("10000", "10")


@pytest.mark.parametrize("start, step, dtype, weak", [
    (0, lambda c: c + 1, "int32", True), (0, lambda c: c + 1.5, "float32", False),
    (0.0, lambda c: c + np.float32(1), "float32", False), (np.float32(0), lambda c: 2.0, "float32", False),
    (0, lambda c: c + np.float32(1), "float32", False), (0.0, lambda c: c * 1j, "complex64", False),
    (np.float16(1), lambda c: c * 2, "float16", False)])
def test_weak_carries_are_promoted(start, step, dtype, weak):
    for out in (lax.scan(lambda c, _: (step(c), None), start, None, length=3)[0],
                lax.while_loop(lambda c: False, step, start),
                jit(lambda n: lax.fori_loop(0, n, lambda i, c: step(c), start))(3)):
        assert out.dtype == dtype and bool(getattr(out, "weak_type", False)) == weak


def test_weak_carries_are_promoted_in_several_rounds():
    def f(c, _):
        a, b, d = c
        return (b, d, d * np.float32(2)), None
    out, _ = lax.scan(f, (0, 1, 2), None, length=4)
    assert [o.dtype.name for o in out] == ["float32"] * 3


@pytest.mark.parametrize("call, error, text", [
    (lambda: lax.scan(lambda c, x: c, 1.0, XS), TypeError, r"must return a pair \(carry, y\); got float32\[\]"),
    (lambda: lax.scan(lambda c, x: (c, x, x), 1.0, XS), TypeError, "got a tuple of 3"),
    (lambda: lax.scan(total, 1.0), ValueError, "length="),
    (lambda: lax.scan(total, 1.0, (XS, XS[:2])), ValueError, r"xs\[0\] float32\[4\], xs\[1\] float32\[2\]"),
    (lambda: lax.scan(total, 1.0, XS, length=3), ValueError, "expected 3"),
    (lambda: lax.scan(total, 1.0, 3.0), ValueError, "leading axis"),
    (lambda: lax.scan(total, 1.0, XS, unroll=0), ValueError, "unroll"),
    (lambda: lax.scan(3, 1.0, XS), TypeError, "f must be a function"),
    (lambda: lax.scan(lambda c, x: ((c[0], c[1] > 0), x), (1.0, XS), XS), TypeError,
     r"differ at carry\[1\]:\n +path +carry in +carry out\n +\[0\] +float32\[\] +float32\[\]\n"
     r"  > +\[1\] +float32\[4\] +bool\[4\]"),
    (lambda: lax.scan(lambda c, x: ({"b": c["a"]}, x), {"a": 1.0}, XS), TypeError,
     r"\['b'\] +\(missing\) +float32\[\]"),
    (lambda: lax.scan(lambda c, x: (list(c), x), (1.0, 2.0), XS), TypeError, "  > +tree"),
    (lambda: lax.scan(lambda c, x: (c, x), np.float32(1), "xs"), TypeError, "xs: "),
    (lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0), TypeError, r"boolean scalar; got float32\[\]"),
    (lambda: lax.while_loop(lambda c: (True, True), lambda c: c, 1.0), TypeError, "boolean scalar"),
    (lambda: lax.while_loop(lambda c: True, lambda c: c[:1], XS), TypeError,
     r"carry in +carry out\n +> +\(whole\) +float32\[4\]"),
    (lambda: lax.while_loop(lambda c: True, lambda c: c, 1, max_iters=-1), ValueError, "max_iters"),
    (lambda: lax.fori_loop(0, 2.5, lambda i, c: c, 1), TypeError, "integer scalars"),
    (lambda: lax.fori_loop(np.int32(0), np.int8(3), lambda i, c: c, 1), TypeError, "same dtype"),
    (lambda: lax.fori_loop(0, 3, lambda i, c: (c[0], i > 0), (1.0, 2.0)), TypeError, r"differ at carry\[1\]"),
    (lambda: lax.map(lambda x: x, 3.0), ValueError, "leading axis"),
    (lambda: lax.map(lambda x: x, XS, batch_size=0), ValueError, "batch_size"),
])
def test_wrong_loops_are_rejected(call, error, text):
    with pytest.raises(error, match=text):
        call()


# --- while, fori, map ---
def test_while_loops():
    assert lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1) == 16
    assert lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1, max_iters=2) == 4
    assert lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1, max_iters=0) == 1


def test_while_closes_over_traced_values():
    def f(limit, factor, x):
        return lax.while_loop(lambda c: c < limit, lambda c: c * factor, x)
    eqn, = make_jaxpr(f)(10.0, 3.0, 1.0).eqns
    assert (eqn.params["cond_nconsts"], eqn.params["body_nconsts"]) == (1, 1)
    assert jit(f)(10.0, 3.0, 1.0) == 27


def test_fori_loop_with_known_bounds_is_a_scan():
    def f(n):
        return lax.fori_loop(0, n, lambda i, c: c + i, 0)
    assert make_jaxpr(lambda: f(5))().eqns[0].primitive.name == "scan"
    assert make_jaxpr(f)(5).eqns[0].primitive.name == "while"
    assert f(5) == jit(f)(5) == 10 and lax.fori_loop(3, 1, lambda i, c: c + 1, 0) == 0
    assert lax.fori_loop(np.int8(2), np.int8(5), lambda i, c: c + i, np.int8(0)) == 9
    assert lax.fori_loop(2, 5, lambda i, c: c + i, 0, unroll=2) == 9


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 9])
def test_map_with_batch_size_returns_same_tree(batch_size):
    out = lax.map(lambda x: {"a": x["k"] * 2, "b": x["k"] + x["m"]}, {"k": XS, "m": XS}, batch_size=batch_size)
    assert out["a"].tolist() == [0, 2, 4, 6] and out["b"].tolist() == [0, 2, 4, 6]
    assert lax.map(lambda x: x, XS[:0], batch_size=batch_size).shape == (0,)


# --- how often is a body traced? ---
def test_bodies_are_traced_once_per_types():
    count = [0]

    def body(c, x):
        count[0] += 1
        return c + x, c

    for _ in range(5):
        lax.scan(body, np.float32(0), XS)
    assert count[0] == 1
    lax.scan(body, np.float32(0), XS.astype(np.int8))
    assert count[0] == 2
    jit(lambda x: lax.scan(body, np.float32(0), x))(XS)
    assert count[0] == 2


def test_body_with_closed_over_tracer_is_not_cached():
    held = [None]

    def body(c, _):
        return c * held[0], None

    def f(w):
        held[0] = w
        return lax.scan(body, 1.0, None, length=2)[0]
    assert jit(f)(2.0) == 4
    assert jit(lambda w: f(w + 1))(2.0) == 9
    held[0] = 5.0
    assert lax.scan(body, 1.0, None, length=2)[0] == 25


def test_loops_run_in_python_with_disable_jit():
    seen = []

    def body(c, x):
        seen.append(float(x))
        return c + x, c
    with disable_jit():
        carry, ys = lax.scan(body, 0.0, XS)
        assert carry == 6 and ys.tolist() == [0, 0, 1, 3] and seen == [0, 1, 2, 3]
        assert lax.scan(body, 0.0, XS, reverse=True)[1].tolist() == [6, 5, 3, 0]
        assert lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1, max_iters=3) == 8
        assert lax.fori_loop(0, 4, lambda i, c: c + i, 0) == 6
        assert lax.cond(True, lambda x: x, lambda x: 1 / 0, 2) == 2
        assert lax.switch(1, [lambda x: 1 / 0, lambda x: x], 2) == 2
        assert lax.map(lambda x: x * 2, XS).tolist() == [0, 2, 4, 6]


# --- by platform ---
def test_platform_dependent_selects_function_of_platform():
    def of(x, **functions):
        return lax.platform_dependent(x, **functions)

    up, down = (lambda x: x + 1), (lambda x: x - 1)
    assert of(3.0, cpu=up, default=down) == 4.0 and of(3.0, gpu=up, default=down) == 2.0
    assert of(3.0, tpu=up, cpu=up) == 4.0 and of(3.0, default=down) == 2.0
    with disable_jit():
        assert of(3.0, tpu=up, cpu=down) == 2.0
    text = str(make_jaxpr(lambda x: of(x, gpu=up, cpu=up, default=down))(3.0))
    assert "platforms=(('cuda', 'rocm', 'cpu'),)" in text and "clamp" not in text


def test_platform_dependent_errors():
    with pytest.raises(NotImplementedError, match="for tpu only.*lowered for cpu"):
        lax.platform_dependent(1.0, tpu=lambda x: x)
    with pytest.raises(ValueError, match="expected functions by platform"):
        lax.platform_dependent(1.0)
    with pytest.raises(TypeError, match="same tree and types"):
        lax.platform_dependent(1.0, cpu=lambda x: x, default=lambda x: (x, x))


# --- tokens ---
def test_tokens_pass_through_transformations():
    token = jit(lambda t: lax.after_all(t, lax.create_token(1.0)))(lax.create_token())
    assert token == lax.create_token() and repr(token) == "Token()"
    with pytest.raises(TypeError, match="operand 1 of type float"):
        lax.after_all(token, 1.0)
    for call in (lambda: lax.infeed(token), lambda: lax.outfeed(token, 1.0)):
        with pytest.raises(NotImplementedError, match="io_callback"):
            call()


def test_associative_scan_rejects_wrong_functions():
    with pytest.raises(TypeError, match="fn must be a function; got int"):
        lax.associative_scan(3, XS)
    with pytest.raises(TypeError, match="fn must return a tree like elems"):
        lax.associative_scan(lambda a, b: (a, b), XS)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: lax.while_loop(lambda c: (c < 2,), lambda c: c, 0.0), r"must return a boolean scalar; got PyTreeDef\(\(\*,\)\)"),
    (lambda: lax.while_loop(lambda c: None, lambda c: c, 0.0), "must return a boolean scalar; got PyTreeDef"),
    (lambda: lax.cond(1j, lambda: 1, lambda: 2), "pred must be a boolean or a real number; got complex64"),
    (lambda: lax.switch(None, [lambda: 1, lambda: 2]), "switch: index must be an integer scalar; got NoneType")])
def test_predicate_and_index_must_be_scalars(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize("lower, upper, wanted", [
    (0, np.int32(3), (np.int32, True)), (np.int32(0), 3, (np.int32, False)), (np.int32(0), np.int32(3), (np.int32, False)),
    (0, np.int8(3), (np.int8, False)), (np.int8(0), 3, (np.int8, False))])
def test_counter_of_fori_loop_is_weak_with_known_bounds_or_a_weak_lower_bound(lower, upper, wanted):
    def find_type(lower, upper):
        types = []
        lax.fori_loop(lower, upper, lambda i, c: types.append((i.dtype, i.weak_type)) or c, np.float32(0))
        return types[0]

    assert find_type(lower, upper) == (np.int32, True)
    found = []
    jit(lambda lower, upper: found.append(find_type(lower, upper)) or lower)(lower, upper)
    assert found == [wanted]
