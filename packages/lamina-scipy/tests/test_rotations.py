"""`spatial.transform`: every way in and out, SciPy's numbers, lists and single ones, transformations, bad input."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import ShapeError
from lamina_random import PRNGKey
from lamina_scipy.spatial.transform import Rotation, Slerp
from lamina_tracing import jit

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
Q, P = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
V, W = RNG.normal(size=(5, 3)), RNG.uniform(size=5)
SEQUENCES = ["".join(p) for p in itertools.product("xyz", repeat=3) if p[0] != p[1] != p[2]]


def close(got, wanted, atol=1e-10):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-9)


def test_there_and_back():
    r = Rotation.from_quat(Q)
    m = np.asarray(r.as_matrix())
    close(m @ np.swapaxes(m, 1, 2), np.broadcast_to(np.eye(3), m.shape))
    close(np.linalg.det(m), np.ones(5))
    for way in ("matrix", "rotvec", "mrp", "quat"):
        close(getattr(Rotation, f"from_{way}")(getattr(r, f"as_{way}")()).as_matrix(), m)
        close(getattr(Rotation, f"from_{way}")(getattr(r[2], f"as_{way}")()).as_matrix(), m[2])
    for seq in (*SEQUENCES, *map(str.upper, SEQUENCES)):
        close(Rotation.from_euler(seq, r.as_euler(seq)).as_matrix(), m)
        for middle in (0, np.pi) if seq[0] == seq[2] else (np.pi / 2, -np.pi / 2):
            locked = Rotation.from_euler(seq, np.array([0.3, middle, 0.5]))
            angles = locked.as_euler(seq)
            assert angles[2] == 0
            close(Rotation.from_euler(seq, angles).as_matrix(), locked.as_matrix(), atol=1e-7)


def test_scipys_numbers():
    r = Rotation.from_quat(Q)
    close(r.as_mrp()[0], [0.1614003838627923, -0.16958353735431564, 0.8221130983233755])
    close(r.as_euler("XYZ")[0], [0.4670272299044338, 0.2977881234134918, 2.7455520954548733])
    close(r.as_euler("zxz", degrees=True)[0], np.degrees([2.21855666778967, 0.5479164503781968, 0.5983229742390181]))
    close(r.mean(W).as_matrix()[0], [-0.6165098868353329, 0.2766421578024221, 0.7371463056684908])
    close(Slerp.init(np.arange(5.0), r)(0.3).as_matrix()[0], [-0.8225715213518312, -0.5681818457843169, 0.023355564263375317])


def test_what_rotations_do():
    r, s = Rotation.from_quat(Q), Rotation.from_quat(P)
    m, n = np.asarray(r.as_matrix()), np.asarray(s.as_matrix())
    close((r * s).as_matrix(), m @ n)
    close((r[1] * s).as_matrix(), m[1] @ n)
    close(r.apply(V), np.einsum("nij,nj->ni", m, V))
    close(r.apply(V, inverse=True), np.einsum("nji,nj->ni", m, V))
    close(r[0].apply(V), V @ m[0].T)
    close(r.apply(V[0]), m @ V[0])
    close(r.inv().as_matrix(), np.swapaxes(m, 1, 2))
    close(r.magnitude(), np.arccos((np.trace(m, axis1=1, axis2=2) - 1) / 2))
    close(Rotation.concatenate([r, s[0]]).as_matrix(), np.concatenate([m, n[:1]]))
    close(Rotation.identity(2).as_matrix(), np.broadcast_to(np.eye(3), (2, 3, 3)))
    close(r.as_quat(canonical=True, scalar_first=True), np.roll(np.asarray(r.as_quat(canonical=True)), 1, -1))
    assert len(r) == 5 and r[0].single and not r.single and r[1:3].quat.shape == (2, 4) and bool(r)
    close(Rotation.from_rotvec(np.array([0.0, 0.0, 90.0]), degrees=True).as_rotvec(degrees=True), [0, 0, 90.0])
    many = Rotation.random(PRNGKey(0), 400)
    close(np.linalg.norm(many.quat, axis=1), np.ones(400))
    assert abs(np.asarray(many.as_matrix()).mean(0)).max() < 0.1 and Rotation.random(PRNGKey(0)).single
    between = Slerp.init(np.array([0.0, 2.0]), r[:2])
    close(between(np.array([0.0, 2.0])).as_matrix(), m[:2])
    assert np.isnan(between(2.1).quat).all()
    assert between.rotations.quat.shape == (1, 4) and between.rotvecs.shape == (1, 3) and between.timedelta.tolist() == [2.0]


def test_transformations():
    r = Rotation.from_quat(Q)
    close(vmap(lambda r, v: r.apply(v))(r, V), r.apply(V))
    close(jit(lambda r: (r * r).inv())(r).as_matrix(), (r * r).inv().as_matrix())
    for f in (lambda v: Rotation.from_rotvec(v).as_matrix(), lambda v: Rotation.from_rotvec(v).as_rotvec()):
        check_grads(f, (V[0],), 2)
        check_grads(f, (V[0] * 1e-3,), 1)
    close(grad(lambda v: Rotation.from_rotvec(v).as_rotvec()[0])(np.zeros(3)), [1.0, 0.0, 0.0])
    check_grads(lambda a: Rotation.from_matrix(Rotation.from_euler("xyz", a).as_matrix()).as_euler("zxz"), (V[0],), 1)


@pytest.mark.parametrize("call, error, words", [
    (lambda: Rotation.from_quat(np.ones(3)), ShapeError, r"from_quat: expected quat, real \[4\] or \[n, 4\]; got float64\[3\]"),
    (lambda: Rotation.from_euler("xx", np.ones(2)), ValueError, "adjacent axes in seq.*'xx'"),
    (lambda: Rotation.from_euler("xY", np.ones(2)), ValueError, "seq must be one to three letters.*'xY'"),
    (lambda: Rotation.from_euler("xyz", np.ones(2)), ShapeError, r"expected angles \[3\]"),
    (lambda: Rotation.from_quat(Q).as_euler("xy"), ValueError, "seq must be three letters"),
    (lambda: Rotation.from_quat(Q).apply(np.ones((2, 3))), ShapeError, "as many vectors as rotations"),
    (lambda: Rotation.from_quat(Q) * Rotation.from_quat(P[:2]), ShapeError, "one length.*5 times 2"),
    (lambda: len(Rotation.identity()), TypeError, "no length"),
    (lambda: Rotation.identity()[0], TypeError, "cannot be indexed"),
    (lambda: Rotation.from_quat(Q).mean(np.ones(2)), ShapeError, r"weights \[5\]"),
    (lambda: Slerp.init(np.ones(2), Rotation.from_quat(Q[:2])), ValueError, "ascend strictly"),
    (lambda: Slerp.init(np.ones(3), Rotation.from_quat(Q)), ShapeError, r"times \[5\]"),
    (lambda: Slerp.init(np.ones(3), Rotation.identity()), ValueError, "at least two Rotations")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
