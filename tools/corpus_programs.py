"""Programs for the corpus beside the samples of each op: dtypes, keys, nested programs, maps, whole functions with arguments.

`programs()` gives them by name. A program without arguments holds its results beside those it has today, like the files of ops;
one with arguments comes with them.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

SMALL_FLOATS = ("f16", "bf16", "f8_e5m2", "f8_e3m4", "f8_e4m3", "f8_e4m3fn", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e4m3b11fnuz",
                "f4_e2m1fn", "f6_e2m3fn", "f6_e3m2fn", "f8_e8m0fnu")
INTEGERS = ("i2", "i4", "i8", "i16", "i32", "i64", "u2", "u4", "u8", "u16", "u32", "u64")
WIDE = ("f64", "c128")
SAMPLES = np.array([0, -0.0, 1, -1, 0.3, -0.7, 1.5, 2.5, 3.25, -6.1, 17, 100.7, -300, 448, 464, 465, 6e4, 7e4, 1e9, -1e20, 1e38,
                    2e-3, 3e-5, -1e-8, 1e-30, 1e-40, np.inf, -np.inf, np.nan], np.float32)


def _rows(rows: list[tuple[Any, list[Any], dict[str, Any]]]) -> Any:
    """A program of one equation per (op, operands, params), all on constants."""
    from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, shaped
    consts, constvars, eqns, outs = [], [], [], []
    for op, args, params in rows:
        ins = [Var(shaped(a.shape, a.dtype)) for a in args]  # as wide as they are, whatever the setting
        types = op.infer(*[v.aval for v in ins], **params)
        results = [Var(t) for t in (types if op.multiple else [types])]
        constvars += ins
        consts += args
        eqns.append(Eqn(op, ins, results, params))
        outs += results
    return ClosedJaxpr(Jaxpr(constvars, [], eqns, outs), consts)


def _codes(d: np.dtype) -> np.ndarray:
    """Every number of a dtype of up to 8 bits; some of a wider one."""
    from lamina_ir import dtypes
    bits = dtypes.finfo(d).bits
    if bits <= 8:
        return np.arange(2 ** bits, dtype=np.uint8).view(d)
    return np.arange(0, 2 ** 16, 97, dtype=np.uint16).view(d)


def _small_float(name: str) -> Any:
    from lamina_ir import dtypes, prims as p
    d = dtypes.from_short_name(name)
    f32, i32, b = np.dtype("float32"), np.dtype("int32"), np.dtype(bool)
    plain = name != "f8_e8m0fnu"  # which has no sign and no zero, and whose halves versions of ml_dtypes round otherwise
    x = np.array([0.5, 1, 1.5, 2, 3, 4] if plain else [0.5, 1, 2, 2, 4, 4], np.float32).astype(d)
    y = np.array([2, 0.5, 1, 4, 1, 2] if plain else [2, 1, 0.5, 8, 1, 4], np.float32).astype(d)
    to = lambda v, n: (p.convert_element_type_p, [v], {"new_dtype": n, "weak_type": False})
    some = SAMPLES if plain else SAMPLES[SAMPLES > 1e-37]
    whole = np.arange(-3, 9, dtype=np.int32) if plain else np.array([1, 2, 4, 5, 7, 8], np.int32)
    rows = [to(_codes(d), f32), to(some, d), to(x, i32), to(x, b), to(whole, d)]
    rows += [(op, [x, y], {}) for op in (p.add_p, p.mul_p, p.div_p, p.max_p, p.min_p, p.lt_p, p.eq_p, p.pow_p)]
    rows += [(op, [x], {}) for op in (p.sqrt_p, p.exp_p, p.copy_p)]
    rows += [(p.reduce_max_p, [x], {"axes": (0,)}), (p.select_p, [np.arange(6) % 2 == 0, x, y], {}), (p.sort_p, [y], {
        "dimension": 0, "is_stable": True, "num_keys": 1})]
    if plain:
        rows += [(p.neg_p, [x], {}), (p.sub_p, [x, y], {}), (p.reduce_sum_p, [x], {"axes": (0,)}),
                 (p.dot_general_p, [x, y], {"dimension_numbers": (((0,), (0,)), ((), ())), "precision": None,
                                            "preferred_element_type": f32})]
    return _rows(rows)


def _integer(name: str) -> Any:
    from lamina_ir import dtypes, prims as p
    d = dtypes.from_short_name(name)
    info = dtypes.iinfo(d)
    low, high = int(info.min), int(info.max)
    x = np.array([low, low + 1, 0, 1, high - 1, high], np.int64 if low else np.uint64).astype(d)
    y = np.array([1, high, 1, high, 1, high], np.int64 if low else np.uint64).astype(d)
    wide = np.array([low, low + 1, 0, 1, high - 1, high], np.float64)
    to = lambda v, n: (p.convert_element_type_p, [v], {"new_dtype": n, "weak_type": False})
    rows = [to(x, np.dtype("float32")), to(x, np.dtype(bool)), to(x, np.dtype("int8")), to(SAMPLES, d), to(wide, d),
            to(np.array([True, False]), d)]
    rows += [(op, [x, y], {}) for op in (p.add_p, p.sub_p, p.mul_p, p.max_p, p.min_p, p.and_p, p.or_p, p.xor_p, p.eq_p, p.lt_p)]
    rows += [(op, [x], {}) for op in (p.neg_p, p.not_p, p.sign_p, p.copy_p)]
    rows += [(p.reduce_sum_p, [x], {"axes": (0,)}), (p.reduce_min_p, [x], {"axes": (0,)}),
             (p.cumsum_p, [x], {"axis": 0, "reverse": True}),
             (p.sort_p, [y], {"dimension": 0, "is_stable": True, "num_keys": 1}),
             (p.iota_p, [], {"dimension": 0, "dtype": d, "shape": (3,)})]
    if int(info.bits) >= 8:
        rows += [(p.div_p, [x, y], {}), (p.rem_p, [x, y], {}), (p.pow_p, [x, np.array([0, 1, 2, 3, 4, 5], d)], {}),
                 (p.population_count_p, [x], {}), (p.clz_p, [x], {})]
        counts = np.array([0, 1, 2, 3, 4, 7], d)
        rows += [(op, [x, counts], {}) for op in (p.shift_left_p, p.shift_right_logical_p, p.shift_right_arithmetic_p)]
    return _rows(rows)


def _wide(name: str) -> Any:
    from lamina_ir import dtypes, prims as p
    d = dtypes.from_short_name(name)
    draw = np.random.RandomState(5)
    x, y = ((draw.normal(size=(3, 4)) + (1j * draw.normal(size=(3, 4)) if name == "c128" else 0)).astype(d) for _ in "xy")
    rows: list[Any] = [(op, [x, y], {}) for op in (p.add_p, p.sub_p, p.mul_p, p.div_p, p.max_p, p.eq_p)]
    rows += [(op, [x], {}) for op in (p.exp_p, p.sin_p, p.tanh_p, p.neg_p, p.sign_p, p.abs_p, p.asinh_p, p.atan_p, p.expm1_p)]
    rows += [(p.dot_general_p, [x, y], {"dimension_numbers": (((1,), (1,)), ((), ())), "precision": None,
                                        "preferred_element_type": None}),
             (p.reduce_prod_p, [x], {"axes": (1,)}), (p.cumsum_p, [x], {"axis": 1, "reverse": False})]
    if name == "f64":
        rows += [(op, [abs(x)], {}) for op in (p.lgamma_p, p.digamma_p, p.erf_p, p.log1p_p, p.erfc_p, p.bessel_i1e_p)]
        rows += [(p.igamma_p, [abs(x) + 1, abs(y)], {}), (p.nextafter_p, [x, y], {})]
    return _rows(rows)


def _empty() -> Any:
    """Arrays without elements, and of rank 0."""
    from lamina_ir import prims as p
    none, some = np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)
    return _rows([(p.reduce_sum_p, [none], {"axes": (0,)}), (p.reduce_max_p, [none], {"axes": (0,)}), (p.sin_p, [none], {}),
                  (p.concatenate_p, [none, some], {"dimension": 0}), (p.transpose_p, [none], {"permutation": (1, 0)}),
                  (p.dot_general_p, [none, some], {"dimension_numbers": (((1,), (1,)), ((), ())), "precision": None,
                                                   "preferred_element_type": None}),
                  (p.broadcast_in_dim_p, [np.float32(2)], {"broadcast_dimensions": (), "shape": (2, 0)}),
                  (p.sort_p, [none], {"dimension": 0, "is_stable": True, "num_keys": 1}),
                  (p.mul_p, [np.float32(3), some], {})])


def _keys() -> Any:
    from lamina_ir import dtypes, prims as p
    words = np.arange(12, dtype=np.uint32).reshape(3, 2, 2)
    keys = words.view(dtypes.key_type("fry")).reshape(3, 2)
    rbg = np.arange(8, dtype=np.uint32).reshape(2, 4)
    dims = p.GatherDimensionNumbers((1,), (0,), (0,))
    return _rows([(p.random_unwrap_p, [keys], {"use": "bits"}), (p.random_wrap_p, [rbg], {"impl": "rbg"}),
                  (p.random_wrap_p, [rbg], {"impl": "urbg"}), (p.transpose_p, [keys], {"permutation": (1, 0)}),
                  (p.eq_p, [keys, keys[::-1]], {}), (p.select_p, [np.arange(6).reshape(3, 2) % 2 == 0, keys, keys[::-1]], {}),
                  (p.concatenate_p, [keys, keys], {"dimension": 1}),
                  (p.gather_p, [keys, np.array([[2], [0]], np.int32)], {
                      "dimension_numbers": dims, "fill_value": None, "indices_are_sorted": False, "slice_sizes": (1, 2),
                      "mode": p.GatherScatterMode.PROMISE_IN_BOUNDS, "unique_indices": False})])


_LITERALS = """{ lambda ; . let
    a:f32[] = add inf:f32[] 1.5:f32[]
    b:bf16[] = mul 0.5:bf16[] 3.0:bf16[]
    c:c64[] = mul (1+2j):c64[] (0-1j):c64[]
    d:i32[] = sub -7:i32[] 3:i32[]
    e:bool[] = not True:bool[]
    f:f16[] = neg 0.0:f16[]
  in (a, b, c, d, e, f) }"""

_NESTED = """{ lambda a:f32[3] ; x:f32[4,3] n:i32[]. let
    y:f32[3] z:f32[4,3] = scan[
      jaxpr={ lambda ; b:f32[3] m:i32[] c:f32[3] r:f32[3]. let
          d:f32[3] = cond[branches=(
            { lambda ; e:f32[3] f:f32[3] g:f32[3]. let h:f32[3] = mul f e in (h,) },
            { lambda ; e:f32[3] f:f32[3] g:f32[3]. let
                k:i32[] h:f32[3] = while[
                  body_jaxpr={ lambda ; l:f32[3] k:i32[] h:f32[3]. let
                      o:i32[] = add k 1:i32[]
                      q:f32[3] = xla_call[call_jaxpr={ lambda ; s:f32[3] t:f32[3]. let
                          u:f32[3] = sin s
                          v:f32[3] = add u t
                        in (v,) } name=step] h l
                    in (o, q) }
                  body_nconsts=1
                  cond_jaxpr={ lambda ; k:i32[] h:f32[3]. let w:bool[] = lt k 3:i32[] in (w,) }
                  cond_nconsts=0
                  max_iters=None
                ] g 0:i32[] f
              in (h,) },
          )] m b c r
          i:i32[] = sub 1:i32[] m
        in (d, d) }
      length=4
      num_carry=1
      num_consts=2
      reverse=True
      unroll=1
    ] a n a x
  in (y, z) }"""


def _from(file: str, f: Any) -> Any:
    """The function as if it stood in another file, which is what its lines say then."""
    def renamed(code: Any) -> Any:
        return code.replace(co_filename=file, co_firstlineno=1, co_consts=tuple(
            [renamed(c) if hasattr(c, "co_filename") else c for c in code.co_consts]))
    f.__code__ = renamed(f.__code__)
    return f


def _network() -> tuple[Any, list[Any], tuple[Any, Any]]:
    """A step of training: loss and new parameters of a network of two layers, as a user writes it."""
    import lamina_numpy as jnp
    from lamina_autodiff import value_and_grad
    from lamina_ir import trees
    from lamina_tracing import jit, make_jaxpr

    def loss(params: Any, x: Any, y: Any) -> Any:
        (w, b), (v, c) = params["hidden"], params["out"]
        hidden = jnp.tanh(x @ w + b)
        scores = hidden @ v + c
        return -(jnp.take_along_axis(scores - jnp.log(jnp.exp(scores).sum(1, keepdims=True)), y[:, None], 1)).mean()

    def step(params: Any, x: Any, y: Any) -> Any:
        value, slopes = value_and_grad(jit(_from("train.py", loss)))(params, x, y)
        return value, trees.tree_map(lambda p, g: p - 0.1 * g, params, slopes)

    draw = np.random.RandomState(3)
    of = lambda *s: draw.normal(size=s).astype(np.float32)
    args = ({"hidden": (of(3, 5), of(5)), "out": (of(5, 2), of(2))}, of(4, 3), np.array([0, 1, 1, 0], np.int32))
    program = make_jaxpr(_from("train.py", step))(*args)
    leaves, ins = trees.tree_flatten(args)
    return program, leaves, (ins, trees.tree_structure(step(*args)))


def _sampler() -> tuple[Any, list[Any], tuple[Any, Any]]:
    """Random numbers from a typed key that is split."""
    import lamina_random as random
    from lamina_ir import trees
    from lamina_tracing import make_jaxpr

    @lambda f: _from("sample.py", f)
    def draw(key: Any) -> Any:
        one, two = random.split(key)
        return random.uniform(one, (5,)), random.bits(two, (3,)), random.bernoulli(two, 0.3, (4,)), random.normal(one, (3,))

    words = np.array([7, 11], np.uint32)
    program = make_jaxpr(_from("sample.py", lambda w: draw(random.wrap_key_data(w))))(words)
    return program, [words], (trees.tree_structure((0,)), trees.tree_structure((0, 0, 0, 0)))


_MAPPED = """{ lambda ; x:f32[3,2] s:f32[2]. let
    y:f32[3,2] t:f32[] = xla_pmap[
      axis_name=rows
      axis_size=3
      backend=None
      call_jaxpr={ lambda ; a:f32[2] b:f32[2]. let
          c:f32[2] = psum[axes=('rows',) axis_index_groups=None] a
          i:i32[] = axis_index[axis_name=rows]
          j:f32[] = convert_element_type[new_dtype=float32 weak_type=False] i
          d:f32[2] = mul a j
          e:f32[2] = sub c d
          f:f32[2] = mul e b
          g:f32[2] = ppermute[axis_name=rows perm=((0, 1), (1, 2))] f
          h:f32[2] = pmax[axes=('rows',) axis_index_groups=None] g
          k:f32[] = reduce_sum[axes=(0,)] h
        in (g, k) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None, None)
      global_axis_size=None
      in_axes=(0, None)
      name=f
      out_axes=(0, None)
    ] x s
  in (y, t) }"""


def programs() -> Iterator[tuple[str, Any, list[Any] | None, dict[str, Any]]]:
    """(name, program, arguments or None, what `dumps` is told) of each."""
    from lamina_ir import parse
    draw = np.random.RandomState(1)
    for name in SMALL_FLOATS:
        yield f"dtype-{name}", _small_float(name), None, {}
    for name in INTEGERS:
        yield f"dtype-{name}", _integer(name), None, {}
    for name in WIDE:
        yield f"dtype-{name}", _wide(name), None, {}
    yield "program-empty", _empty(), None, {}
    yield "program-keys", _keys(), None, {}
    yield "program-literals", parse(_LITERALS), None, {}
    nested = parse(_NESTED, consts=[draw.normal(size=3).astype(np.float32)])
    for n in (0, 1):
        yield f"program-nested-{n}", nested, [draw.normal(size=(4, 3)).astype(np.float32), np.int32(n)], {}
    yield "program-mapped", parse(_MAPPED), [draw.normal(size=(3, 2)).astype(np.float32), np.float32([2, -1])], {}
    for name, (program, args, trees) in (("network", _network()), ("sampler", _sampler())):
        yield f"program-{name}", program, args, {"sources": True, "trees": trees}
