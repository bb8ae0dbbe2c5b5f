"""`linear_util`: functions wrapped in transformations."""
import pytest
from lamina_tracing import linear_util as wf


@wf.transformation
def scaled(k, *args, **kwargs):
    out = yield tuple([k * a for a in args]), kwargs
    yield out + k


@wf.transformation_with_aux
def with_aux(*args):
    out = yield args, {}
    yield out, ("aux", out)


def base(x, y=2):
    return x + y


def test_wrapped_function_transforms_arguments_and_results():
    w = wf.wrap_init(base, {"y": 5})
    assert w.call_wrapped(1) == 6 and w.params == (("y", 5),) and w.f is base
    g, aux = with_aux(scaled(w, 10))
    with pytest.raises(wf.StoreException, match="not run yet"):
        aux()
    assert g.call_wrapped(1) == 25 and aux() == ("aux", 25)
    with pytest.raises(wf.StoreException, match="ran already"):
        g.call_wrapped(1)
    other, unset_aux = with_aux(w)
    assert wf.merge_linear_aux(unset_aux, aux) == (False, ("aux", 25))
    assert repr(g) == "WrappedFun(base, in scaled, in with_aux)"
    with pytest.raises(wf.StoreException, match="neither"):
        wf.merge_linear_aux(unset_aux, unset_aux)
    assert wf.wrap_init(base) == wf.wrap_init(base) and wf.wrap_init(base) != w and len({w, wf.wrap_init(base, {"y": 5})}) == 1


def test_cache_stores_results_with_aux_values():
    ran = []

    @wf.cache
    def call(fun, x):
        ran.append(x)
        return fun.call_wrapped(x)

    for _ in range(2):
        fun, aux = with_aux(wf.wrap_init(base))
        assert call(fun, 1) == 3 and aux() == ("aux", 3)
    assert ran == [1] and call(wf.wrap_init(base), 2) == 4
