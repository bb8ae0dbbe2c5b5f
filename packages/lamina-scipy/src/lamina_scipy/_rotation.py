"""Rotations of space, one or a list of them, as unit quaternions (x, y, z, w); and what leads from one to the next."""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import lamina_numpy as lnp
import numpy as np
from typing_extensions import override
from lamina_ir import ShapeError, trees
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_random import normal
from lamina_tracing import Array, ArrayLike, jit
from lamina_tracing.extend import closes_over_tracers, typeof

from ._util import name_method_errors

__all__ = ["Rotation", "Slerp"]

_jit = partial(jit, inline=True)


def _check_vectors(call: str, argument: str, x: Any, last: tuple[int, ...], rank: int) -> Any:
    """Float arrays of one (`rank` axes) or a list of what has the shape `last`."""
    x = lnp.asarray(to_inexact(call, lnp.asarray(x) if isinstance(x, (list, tuple)) else x))
    t = typeof(x)
    if t.shape[len(t.shape) - len(last):] != last or len(t.shape) not in (rank, rank + 1) or t.dtype.kind == "c":
        shape = ", ".join(map(str, last))
        raise ShapeError(f"{call}: expected {argument}, real [{shape}] or [n, {shape}]; got {t.str_long()}")
    return x


@name_method_errors
class Rotation:
    """Rotations of space: one, or a list of n.

    Args:
      quat: unit quaternions `[4]` or `[n, 4]`, in the order x, y, z, w; taken as they are, which `from_quat` does not.

    Source: meaning of `scipy.spatial.transform.Rotation`. A tree of one array: `vmap`, `jit` and derivatives go
      through.

    >>> turn = Rotation.from_euler("z", 90., degrees=True)
    >>> turn.apply(np.array([1., 0., 0.])).round(3)
    Array([0., 1., 0.], dtype=float32)
    >>> (turn * turn).magnitude().round(3)
    Array(3.142, dtype=float32)
    """

    __slots__ = ("quat",)
    quat: Any

    def __init__(self, quat: ArrayLike) -> None:
        self.quat = _check_vectors("Rotation", "quat", quat, (4,), 1)

    @classmethod
    def _wrap(cls, quat: Any) -> Rotation:
        made = object.__new__(cls)
        made.quat = quat
        return made

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Rotations by quaternions `[4]` or `[n, 4]`, in the order x, y, z, w, of any length but 0."""
        return cls._wrap(_normalize(_check_vectors("Rotation.from_quat", "quat", quat, (4,), 1)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Rotations by orthogonal matrices `[3, 3]` or `[n, 3, 3]` of determinant 1."""
        return cls._wrap(_from_matrix(_check_vectors("Rotation.from_matrix", "matrix", matrix, (3, 3), 2)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about vectors `[3]` or `[n, 3]` by their lengths, in radians or degrees."""
        v = _check_vectors("Rotation.from_rotvec", "rotvec", rotvec, (3,), 1)
        return cls._wrap(_from_rotvec(lnp.radians(v) if degrees else v))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations by modified Rodrigues parameters `[3]` or `[n, 3]`: axes times the tangent of a quarter of the angle."""
        return cls._wrap(_from_mrp(_check_vectors("Rotation.from_mrp", "mrp", mrp, (3,), 1)))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about axes, one after the other.

        Args:
          seq: up to three letters: of "xyz" for fixed axes, of "XYZ" for axes that rotate with the object.
          angles: radians or degrees: for one letter a number or `[n]`, else `[m]` or `[n, m]` for m letters.
          degrees: whether they are degrees.
        """
        axes, intrinsic = _parse_axes("Rotation.from_euler", seq, 1)
        a = lnp.asarray(to_inexact("Rotation.from_euler", lnp.asarray(angles)))
        shape, m = typeof(a).shape, len(seq)
        if m == 1 and (shape == () or len(shape) == 1):
            a = lnp.expand_dims(a, -1)
        elif not (len(shape) in (1, 2) and shape[-1] == m):
            raise ShapeError(f"Rotation.from_euler: expected angles [{m}] or [n, {m}] for seq={seq!r}; "
                             f"got {typeof(a).str_long()}")
        return cls._wrap(_from_euler(lnp.radians(a) if degrees else a, axes, intrinsic))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """No rotation, or a list of `num` of them."""
        q = lnp.asarray([0, 0, 0, 1], dtype)
        return cls._wrap(q if num is None else lnp.tile(q, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation, or a list of `num`, all equally likely."""
        return cls._wrap(_normalize(normal(random_key, (4,) if num is None else (num, 4))))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several rotations, or lists of them, as one list."""
        for r in rotations:
            if not isinstance(r, Rotation):
                raise TypeError(f"Rotation.concatenate: rotations must be Rotations; got {type(r).__name__}")
        return cls._wrap(lnp.concatenate([lnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, no list."""
        return len(typeof(self.quat).shape) == 1

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Unit quaternions `[4]` or `[n, 4]`.

        Args:
          canonical: of both that mean the same rotation that with w not below 0.
          scalar_first: in the order w, x, y, z.
        """
        q = _make_canonical(self.quat) if canonical else self.quat
        return lnp.roll(q, 1, -1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Orthogonal matrices `[3, 3]` or `[n, 3, 3]`."""
        return _to_matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Axes `[3]` or `[n, 3]` as long as the angle, at most pi, in radians or degrees."""
        v = _to_rotvec(self.quat)
        return lnp.degrees(v) if degrees else v

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters `[3]` or `[n, 3]`, of length 1 at most."""
        return _to_mrp(self.quat)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles `[3]` or `[n, 3]` about three axes, one after the other.

        Args:
          seq: three letters, adjacent ones different: of "xyz" for fixed axes, of "XYZ" for axes that rotate with
            the object.
          degrees: give degrees. The first and third angles are in `[-pi, pi]`, the second in `[0, pi]` where
          the first and
            the third axis are the same, else within `[-pi/2, pi/2]`; at its ends the third angle is 0.
        """
        axes, intrinsic = _parse_axes("Rotation.as_euler", seq, 3)
        a = _to_euler(self.quat, axes, intrinsic)
        return lnp.degrees(a) if degrees else a

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors `[3]` or `[n, 3]` turned by this rotation, or each by its own; `inverse` turns them back."""
        v = _check_vectors("Rotation.apply", "vectors", vectors, (3,), 1)
        m = _to_matrix(self.quat)
        if len({n for n in (typeof(m).shape[:-2], typeof(v).shape[:-1]) if n not in ((), (1,))}) > 1:
            raise ShapeError("Rotation.apply: expected as many vectors as rotations, or one of either; got "
                             f"{typeof(v).str_long()} for {len(self)} rotations")
        return lnp.matvec(lnp.matrix_transpose(m) if inverse else m, v)

    def inv(self) -> Rotation:
        """The rotation back."""
        return self._wrap(_conjugate(self.quat))

    def magnitude(self) -> Array:
        """The angle, from 0 to pi radians; of a list `[n]`."""
        return _compute_angle(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation to which the sum of squared chords is least: Markley and others, "Averaging quaternions" (2007).

        Args:
          weights: real array `[n]`, not negative; None for equal ones.
        """
        q = lnp.atleast_2d(self.quat)
        n = typeof(q).shape[0]
        w = lnp.ones(n, typeof(q).dtype) if weights is None else lnp.asarray(to_inexact("Rotation.mean", lnp.asarray(weights)))
        if typeof(w).shape != (n,):
            raise ShapeError(f"Rotation.mean: expected weights [{n}], one for each rotation; got {typeof(w).str_long()}")
        return self._wrap(_compute_mean(q, w))

    def __mul__(self, other: Rotation) -> Rotation:
        """First `other`, then this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        s, t = typeof(self.quat).shape[:-1], typeof(other.quat).shape[:-1]
        if len({n for n in (s, t) if n not in ((), (1,))}) > 1:
            raise ShapeError(f"Rotation: expected lists of one length, or one rotation; got {s[0]} times {t[0]}")
        return self._wrap(_multiply(self.quat, other.quat))

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("Rotation: a single rotation cannot be indexed; expected a list of rotations")
        return self._wrap(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Rotation: a single rotation has no length; expected a list of rotations")
        return typeof(self.quat).shape[0]

    def __bool__(self) -> bool:
        return True

    @override
    def __repr__(self) -> str:
        return f"Rotation(quat={self.quat!r})"


@name_method_errors
class Slerp:
    """What turns evenly from one rotation to the next; `Slerp.init(times, rotations)` makes it.

    Args:
      times: real array `[n]`: when each rotation is reached, ascending.
      timedelta: the differences of times, `[n - 1]`.
      rotations: the first n - 1 of them.
      rotvecs: the turns from one to the next, `[n - 1, 3]`.

    Source: meaning of `scipy.spatial.transform.Slerp`; Shoemake, "Animating rotation with quaternion curves" (1985).

    >>> turns = Rotation.from_euler("z", np.array([0., 90.]), degrees=True)
    >>> Slerp.init(np.array([0., 1.]), turns)(0.5).as_euler("zyx", degrees=True).round(2) + 0
    Array([45.,  0.,  0.], dtype=float32)
    """

    __slots__ = ("rotations", "rotvecs", "timedelta", "times")
    times: Any
    timedelta: Any
    rotations: Any
    rotvecs: Any

    def __init__(self, times: Any, timedelta: Any, rotations: Any, rotvecs: Any) -> None:
        self.times, self.timedelta, self.rotations, self.rotvecs = times, timedelta, rotations, rotvecs

    @classmethod
    @ignore_strict_promotion
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """From n rotations and when they are reached: times `[n]`, ascending strictly, n at least 2."""
        if not isinstance(rotations, Rotation) or rotations.single or len(rotations) < 2:
            raise ValueError("Slerp.init: rotations must be a list of at least two Rotations")
        times = lnp.asarray(to_inexact("Slerp.init", lnp.asarray(times)))
        if typeof(times).shape != (len(rotations),):
            raise ShapeError(f"Slerp.init: expected times [{len(rotations)}], one for each rotation; got "
                             f"{typeof(times).str_long()}")
        gaps = lnp.diff(times)
        if not closes_over_tracers(gaps) and not (np.asarray(gaps) > 0).all():
            raise ValueError("Slerp.init: times must ascend strictly")
        before = rotations[:-1]
        return cls(times, gaps, before, (before.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at times, a number or `[k]`; NaN where one is outside of those given."""
        t = lnp.asarray(to_inexact("Slerp", lnp.asarray(times)))
        if len(typeof(t).shape) > 1:
            raise ShapeError(f"Slerp: expected times, a number or [k]; got {typeof(t).str_long()}")
        return Rotation._wrap(_interpolate(self.times, self.timedelta, self.rotations.quat, self.rotvecs, t))


trees.register_pytree_node(Rotation, lambda r: ((r.quat,), None), lambda _, parts: Rotation._wrap(parts[0]))
trees.register_pytree_node(Slerp, lambda s: ((s.times, s.timedelta, s.rotations, s.rotvecs), None),
                           lambda _, parts: Slerp(*parts))


def _parse_axes(call: str, seq: str, least: int) -> tuple[tuple[int, ...], bool]:
    """The axes of a sequence, 0 to 2, and whether they rotate with the object."""
    if not isinstance(seq, str) or not least <= len(seq) <= 3 or set(seq) - set("xyz") and set(seq) - set("XYZ"):
        count = "three" if least == 3 else "one to three"
        raise ValueError(f"{call}: seq must be {count} letters of 'xyz', or of 'XYZ' for axes that rotate with the object; "
                         f"got {seq!r}")
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"{call}: adjacent axes in seq must be different; got {seq!r}")
    return tuple("xyz".index(letter) for letter in seq.lower()), seq.isupper()


def _norm2(v: Any) -> Any:
    return lnp.sum(lnp.square(v), -1, keepdims=True)


@_jit
def _normalize(q: Any) -> Any:
    return q / lnp.sqrt(_norm2(q))


@_jit
def _make_canonical(q: Any) -> Any:
    return lnp.where(q[..., 3:] < 0, -q, q)


@_jit
def _conjugate(q: Any) -> Any:
    return q * np.array([-1, -1, -1, 1], typeof(q).dtype)


@_jit
def _multiply(p: Any, q: Any) -> Any:
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    axis = a * v + b * u + lnp.cross(u, v)
    return lnp.concatenate([axis, a * b - lnp.sum(u * v, -1, keepdims=True)], -1)


@_jit
def _to_matrix(q: Any) -> Any:
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]]
    return lnp.stack([lnp.stack(row, -1) for row in rows], -2)


@_jit
def _from_matrix(m: Any) -> Any:
    """Four ways to the same quaternion, of which that with the largest divisor is taken: Shepperd (1978)."""
    total = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    ways = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - total + 2 * m[..., i, i], j: m[..., j, i] + m[..., i, j], k: m[..., k, i] + m[..., i, k],
                 3: m[..., k, j] - m[..., j, k]}
        ways.append(lnp.stack([parts[n] for n in range(4)], -1))
    ways.append(lnp.stack([*(m[..., k, j] - m[..., j, k] for j, k in ((1, 2), (2, 0), (0, 1))), 1 + total], -1))
    best = lnp.argmax(lnp.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], total], -1), -1)
    chosen = lnp.take_along_axis(lnp.stack(ways, -2), best[..., None, None], -2)[..., 0, :]
    return chosen / lnp.sqrt(_norm2(chosen))


@_jit
def _from_rotvec(v: Any) -> Any:
    square = _norm2(v)
    small = square < 1e-3  # there by series, which has a derivative at 0
    angle = lnp.sqrt(lnp.where(small, 1, square))
    scale = lnp.where(small, 0.5 - square / 48 + square ** 2 / 3840 - square ** 3 / 645120, lnp.sin(angle / 2) / angle)
    last = lnp.where(small, 1 - square / 8 + square ** 2 / 384 - square ** 3 / 46080, lnp.cos(angle / 2))
    return lnp.concatenate([v * scale, last], -1)


@_jit
def _to_rotvec(q: Any) -> Any:
    q = lnp.where(q[..., 3:] < 0, -q, q)
    square = _norm2(q[..., :3])
    small = square < 1e-4
    sine = lnp.sqrt(lnp.where(small, 1, square))
    series = 2 + square / 3 + square ** 2 * (3 / 20) + square ** 3 * (5 / 56)
    return q[..., :3] * lnp.where(small, series, 2 * lnp.arctan2(sine, q[..., 3:]) / sine)


@_jit
def _compute_angle(q: Any) -> Any:
    return 2 * lnp.arctan2(lnp.sqrt(_norm2(q[..., :3]))[..., 0], lnp.abs(q[..., 3]))


@_jit
def _from_mrp(p: Any) -> Any:
    square = _norm2(p)
    return lnp.concatenate([2 * p, 1 - square], -1) / (1 + square)


@_jit
def _to_mrp(q: Any) -> Any:
    q = lnp.where(q[..., 3:] < 0, -q, q)
    return q[..., :3] / (1 + q[..., 3:])


@partial(jit, inline=True, static_argnames=("axes", "intrinsic"))
def _from_euler(angles: Any, axes: Any, intrinsic: Any) -> Any:
    total = None
    for i, axis in enumerate(axes):
        half = angles[..., i:i + 1] / 2
        part = lnp.concatenate([lnp.sin(half) if n == axis else lnp.zeros_like(half) for n in range(3)] + [lnp.cos(half)], -1)
        total = part if total is None else _multiply(total, part) if intrinsic else _multiply(part, total)
    return total


@partial(jit, inline=True, static_argnames=("axes", "intrinsic"))
def _to_euler(q: Any, axes: Any, intrinsic: Any) -> Any:
    """Bernardes and Viollet, "Quaternion to Euler angles conversion" (2022); rotating axes are read backwards."""
    i, j, k = axes[::-1] if intrinsic else axes
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) // 2
    x, y, z, w = q[..., i], q[..., j], q[..., k] * sign, q[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    second = 2 * lnp.arctan2(lnp.hypot(c, d), lnp.hypot(a, b))
    eps = 1e-7 if typeof(q).dtype.itemsize > 4 else 1e-3
    none, half = lnp.abs(second) <= eps, lnp.abs(second - np.pi) <= eps
    locked = none | half
    plus, minus = lnp.arctan2(b, lnp.where(half, 1, a)), lnp.arctan2(d, lnp.where(none, 1, c))
    first, third = plus - minus, plus + minus
    if intrinsic:  # what comes first here is the third of the sequence
        third = lnp.where(none, 2 * plus, lnp.where(half, 2 * minus, third))
        first = lnp.where(locked, 0, first)
    else:
        first = lnp.where(none, 2 * plus, lnp.where(half, -2 * minus, first))
        third = lnp.where(locked, 0, third)
    if not proper:
        second, third = second - np.pi / 2, third * sign
    first, third = (lnp.where(n < -np.pi, n + 2 * np.pi, lnp.where(n > np.pi, n - 2 * np.pi, n)) for n in (first, third))
    return lnp.stack([third, second, first] if intrinsic else [first, second, third], -1)


@_jit
@ignore_strict_promotion
def _compute_mean(q: Any, w: Any) -> Any:
    return lnp.linalg.eigh(lnp.matmul(q.T * w, q, precision="highest")).eigenvectors[:, -1]


@_jit
@ignore_strict_promotion
def _interpolate(times: Any, gaps: Any, quats: Any, rotvecs: Any, t: Any) -> Any:
    at = lnp.clip(lnp.searchsorted(times, t, side="right") - 1, 0, typeof(gaps).shape[0] - 1)
    share = (t - times[at]) / gaps[at]
    inside = (t >= times[0]) & (t <= times[-1])
    q = _multiply(quats[at], _from_rotvec(rotvecs[at] * share[..., None]))
    return lnp.where(inside[..., None], q, np.nan)
