"""Linear functions with custom transposes, and the list of saved residuals."""
import lamina_autodiff as la
import numpy as np
import pytest
from lamina_tracing import jit, lax
from lamina_tracing.extend import typeof


def scaled(r, x):
    return la.linear_call(lambda r, x: x / r, lambda r, ct: 10.0 * ct / r, r, x)


def test_linear_call_uses_given_transpose():
    assert float(scaled(2.0, 6.0)) == 3 and float(jit(scaled)(2.0, 6.0)) == 3
    assert float(la.linear_transpose(lambda x: scaled(2.0, x), 6.0)(1.0)[0]) == 5
    assert float(la.grad(scaled, 1)(2.0, 4.0)) == 5 and float(la.grad(scaled, 0)(2.0, 4.0)) == -1
    twice = la.linear_transpose(lambda ct: la.linear_transpose(lambda x: scaled(2.0, x), 6.0)(ct)[0], 1.0)
    assert float(twice(1.0)[0]) == 0.5  # the transpose of the transpose is the original function
    z = la.grad(lambda z: la.linear_call(lambda r, t: {"a": t * z}, lambda r, ct: ct["a"] * z, (), 3.0)["a"])(2.0)
    assert float(z) == 3


def test_transpose_with_wrong_type_is_rejected():
    with pytest.raises(TypeError, match="linear_call: fun_transpose .* must return the tree and types of linear_args"):
        la.linear_call(lambda r, x: x, lambda r, ct: (ct, ct), (), 1.0)


def test_transpose_can_be_defined_later():
    @la.custom_transpose
    def f(r, x):
        return x / r

    assert float(la.linear_transpose(lambda x: f(1.0, 2.0, x), 6.0)(1.0)[0]) == 0.5
    f.def_transpose(lambda r, ct: 10.0 * ct / r)
    assert float(la.linear_transpose(lambda x: f(typeof(1.0), 2.0, x), 6.0)(1.0)[0]) == 5
    with pytest.raises(TypeError, match="custom_transpose of `f`: the result must be"):
        f((1.0, 1.0), 2.0, 6.0)


def test_saved_residuals_are_printed(capsys):
    def f(x, w):
        return lax.mul(lax.sin(lax.cos(x)), w["a"])

    la.print_saved_residuals(f, np.float32(1), {"a": np.float32(2)})
    output = capsys.readouterr().out
    assert "f32[] from the argument w['a']\n" in output and "f32[] output of cos from" in output
    again = la.checkpoint(f, policy=la.checkpoint_policies.nothing_saveable)
    la.print_saved_residuals(again, np.float32(1), w={"a": np.float32(2)})
    assert sorted(capsys.readouterr().out.splitlines()) == ["f32[] from the argument w['a']", "f32[] from the argument x"]
    again = la.checkpoint(lambda x: lax.sin(lax.sin(x)), policy=lambda p, *_, **k: la.Saveable)
    la.print_saved_residuals(again, np.float32(1))
    assert "output of sin" in capsys.readouterr().out and not la.Recompute
    keep = la.checkpoint_policies.save_only_these_names("s")
    again = la.checkpoint(lambda x: lax.sin(la.checkpoint_name(lax.sin(x), "s")), policy=keep)
    la.print_saved_residuals(again, np.float32(1))
    assert "f32[] named 's' from" in capsys.readouterr().out
    la.print_saved_residuals(lambda x: lax.mul(x, np.arange(3, dtype=np.float32)), np.ones(3, np.float32))
    assert capsys.readouterr().out == "f32[3] from a constant\n"
    values = la.custom_vjp_primal_tree_values((la.CustomVJPPrimal(1, True), 2))
    assert values == (1, 2) and la.custom_jvp.symbolic_zeros is False
