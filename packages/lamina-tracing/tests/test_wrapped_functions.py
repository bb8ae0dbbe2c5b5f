"""Functions with transformations around them."""
import pytest
from lamina_tracing import linear_util as wf


@wf.transformation
def scaled(k, *args, **kwargs):
    out = yield tuple([k * a for a in args]), kwargs
    yield out + k


@wf.transformation_with_aux
def told(*args):
    out = yield args, {}
    yield out, ("said", out)


def base(x, y=2):
    return x + y


def test_arguments_go_in_and_results_come_out():
    w = wf.wrap_init(base, {"y": 5})
    assert w.call_wrapped(1) == 6 and w.params == (("y", 5),) and w.f is base
    g, said = told(scaled(w, 10))
    with pytest.raises(wf.StoreException, match="not run yet"):
        said()
    assert g.call_wrapped(1) == 25 and said() == ("said", 25)
    with pytest.raises(wf.StoreException, match="ran already"):
        g.call_wrapped(1)
    other, unsaid = told(w)
    assert wf.merge_linear_aux(unsaid, said) == (False, ("said", 25)) and repr(g) == "WrappedFun(base, in scaled, in told)"
    with pytest.raises(wf.StoreException, match="neither"):
        wf.merge_linear_aux(unsaid, unsaid)
    assert wf.wrap_init(base) == wf.wrap_init(base) and wf.wrap_init(base) != w and len({w, wf.wrap_init(base, {"y": 5})}) == 1


def test_calls_are_remembered_with_what_they_said():
    ran = []

    @wf.cache
    def call(fun, x):
        ran.append(x)
        return fun.call_wrapped(x)

    for _ in range(2):
        fun, said = told(wf.wrap_init(base))
        assert call(fun, 1) == 3 and said() == ("said", 3)
    assert ran == [1] and call(wf.wrap_init(base), 2) == 4
