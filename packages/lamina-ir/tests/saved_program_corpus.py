"""Add the files that this version writes to the corpus of saved programs, which every later version must read.

usage: python packages/lamina-ir/tests/saved_program_corpus.py [--out FOLDER] [--version VERSION]

The corpus has a folder for each version of lamina-ir. `index.json` names, for each program, its file in this or an earlier
folder: a file is added only if its content differs from that of the version before, and is never written again. Programs: the
samples of each primitive, and `programs()`. A program without arguments is stored with its results as constants. A program with
arguments, NAME.lamina, is stored with NAME.values.lamina, which has no equations and holds arguments and results.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, ProgramError, Var, __version__, dtypes, dumps, evaluate, evaluate_spmd, loads,
                       parse, shaped, split_saved, trees)
from lamina_ir import prims as p
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES

CORPUS = Path(__file__).resolve().with_name("corpus")
TEXTS = CORPUS.with_name("corpus_texts")
SMALL_FLOATS = ("f16", "bf16", "f8_e5m2", "f8_e3m4", "f8_e4m3", "f8_e4m3fn", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e4m3b11fnuz",
                "f4_e2m1fn", "f6_e2m3fn", "f6_e3m2fn", "f8_e8m0fnu")
INTEGERS = ("i2", "i4", "i8", "i16", "i32", "i64", "u2", "u4", "u8", "u16", "u32", "u64")
SAMPLES = np.array([0, -0.0, 1, -1, 0.3, -0.7, 1.5, 2.5, 3.25, -6.1, 17, 100.7, -300, 448, 464, 465, 6e4, 7e4, 1e9, -1e20, 1e38,
                    2e-3, 3e-5, -1e-8, 1e-30, 1e-40, np.inf, -np.inf, np.nan], np.float32)
F32, I32, BOOL = np.dtype("float32"), np.dtype("int32"), np.dtype(bool)
DOT_1D = {"dimension_numbers": (((0,), (0,)), ((), ())), "precision": None, "preferred_element_type": F32}
DOT_2D = {"dimension_numbers": (((1,), (1,)), ((), ())), "precision": None, "preferred_element_type": None}
SORT = {"dimension": 0, "is_stable": True, "num_keys": 1}
Use = tuple[Any, list[Any], dict[str, Any]]  # primitive, operands, parameters
Saved = tuple[str, Any, list[Any] | None, dict[str, Any]]  # name, program, arguments or None, keyword arguments of `dumps`


# --- programs whose operands are constants ------------------------------------------------------------------------
def program_of_uses(uses: list[Use]) -> Any:
    """Return a program of one equation for each use of a primitive, on constants."""
    consts, constvars, eqns, outs = [], [], [], []
    for prim, args, params in uses:
        ins = [Var(shaped(a.shape, a.dtype)) for a in args]  # 64-bit operands stay 64 bits wide, whatever the setting
        types = prim.infer(*[v.aval for v in ins], **params)
        results = [Var(t) for t in (types if prim.multiple else [types])]
        constvars += ins
        consts += args
        eqns.append(Eqn(prim, ins, results, params))
        outs += results
    return ClosedJaxpr(Jaxpr(constvars, [], eqns, outs), consts)


def convert(value: Any, dtype: Any) -> Use:
    return p.convert_element_type_p, [value], {"new_dtype": dtype, "weak_type": False}


def small_float(name: str) -> Any:
    """Return arithmetic and conversions of a float dtype of at most 16 bits, from all of its values if it has at most 8."""
    d = dtypes.from_short_name(name)
    bits = dtypes.finfo(d).bits
    codes = np.arange(2 ** bits, dtype=np.uint8) if bits <= 8 else np.arange(0, 2 ** 16, 97, np.uint16)
    signed = name != "f8_e8m0fnu"  # has no sign and no zero, and versions of ml_dtypes round its halves differently
    x = np.array([0.5, 1, 1.5, 2, 3, 4] if signed else [0.5, 1, 2, 2, 4, 4], np.float32).astype(d)
    y = np.array([2, 0.5, 1, 4, 1, 2] if signed else [2, 1, 0.5, 8, 1, 4], np.float32).astype(d)
    integers = np.arange(-3, 9, dtype=np.int32) if signed else np.array([1, 2, 4, 5, 7, 8], np.int32)
    uses = [convert(codes.view(d), F32), convert(SAMPLES if signed else SAMPLES[SAMPLES > 1e-37], d), convert(x, I32),
            convert(x, BOOL), convert(integers, d)]
    uses += [(op, [x, y], {}) for op in (p.add_p, p.mul_p, p.div_p, p.max_p, p.min_p, p.lt_p, p.eq_p, p.pow_p)]
    uses += [(op, [x], {}) for op in (p.sqrt_p, p.exp_p, p.copy_p)]
    uses += [(p.reduce_max_p, [x], {"axes": (0,)}), (p.select_p, [np.arange(6) % 2 == 0, x, y], {}), (p.sort_p, [y], SORT)]
    if signed:
        uses += [(p.neg_p, [x], {}), (p.sub_p, [x, y], {}), (p.reduce_sum_p, [x], {"axes": (0,)}),
                 (p.dot_general_p, [x, y], DOT_1D)]
    return program_of_uses(uses)


def integer(name: str) -> Any:
    """Return arithmetic and conversions of an integer dtype at the ends of its range."""
    d = dtypes.from_short_name(name)
    info = dtypes.iinfo(d)
    low, high = int(info.min), int(info.max)
    wide = np.int64 if low else np.uint64
    x = np.array([low, low + 1, 0, 1, high - 1, high], wide).astype(d)
    y = np.array([1, high, 1, high, 1, high], wide).astype(d)
    uses = [convert(x, F32), convert(x, BOOL), convert(x, np.dtype("int8")), convert(SAMPLES, d),
            convert(np.array([low, low + 1, 0, 1, high - 1, high], np.float64), d), convert(np.array([True, False]), d)]
    uses += [(op, [x, y], {}) for op in (p.add_p, p.sub_p, p.mul_p, p.max_p, p.min_p, p.and_p, p.or_p, p.xor_p, p.eq_p, p.lt_p)]
    uses += [(op, [x], {}) for op in (p.neg_p, p.not_p, p.sign_p, p.copy_p)]
    uses += [(p.reduce_sum_p, [x], {"axes": (0,)}), (p.reduce_min_p, [x], {"axes": (0,)}),
             (p.cumsum_p, [x], {"axis": 0, "reverse": True}), (p.sort_p, [y], SORT),
             (p.iota_p, [], {"dimension": 0, "dtype": d, "shape": (3,)})]
    if int(info.bits) >= 8:
        uses += [(p.div_p, [x, y], {}), (p.rem_p, [x, y], {}), (p.pow_p, [x, np.array([0, 1, 2, 3, 4, 5], d)], {}),
                 (p.population_count_p, [x], {}), (p.clz_p, [x], {})]
        counts = np.array([0, 1, 2, 3, 4, 7], d)
        uses += [(op, [x, counts], {}) for op in (p.shift_left_p, p.shift_right_logical_p, p.shift_right_arithmetic_p)]
    return program_of_uses(uses)


def wide_number(name: str) -> Any:
    """Return functions of float64 or complex128 numbers."""
    d = dtypes.from_short_name(name)
    draw = np.random.RandomState(5)
    x, y = ((draw.normal(size=(3, 4)) + (1j * draw.normal(size=(3, 4)) if name == "c128" else 0)).astype(d) for _ in "xy")
    uses: list[Use] = [(op, [x, y], {}) for op in (p.add_p, p.sub_p, p.mul_p, p.div_p, p.max_p, p.eq_p)]
    uses += [(op, [x], {}) for op in (p.exp_p, p.sin_p, p.tanh_p, p.neg_p, p.sign_p, p.abs_p, p.asinh_p, p.atan_p, p.expm1_p)]
    uses += [(p.dot_general_p, [x, y], DOT_2D), (p.reduce_prod_p, [x], {"axes": (1,)}),
             (p.cumsum_p, [x], {"axis": 1, "reverse": False})]
    if name == "f64":
        uses += [(op, [abs(x)], {}) for op in (p.lgamma_p, p.digamma_p, p.erf_p, p.log1p_p, p.erfc_p, p.bessel_i1e_p)]
        uses += [(p.igamma_p, [abs(x) + 1, abs(y)], {}), (p.nextafter_p, [x, y], {})]
    return program_of_uses(uses)


def empty_arrays() -> Any:
    """Return operations on arrays without elements, and on scalars."""
    empty, ones = np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)
    return program_of_uses([
        (p.reduce_sum_p, [empty], {"axes": (0,)}), (p.reduce_max_p, [empty], {"axes": (0,)}), (p.sin_p, [empty], {}),
        (p.concatenate_p, [empty, ones], {"dimension": 0}), (p.transpose_p, [empty], {"permutation": (1, 0)}),
        (p.dot_general_p, [empty, ones], DOT_2D),
        (p.broadcast_in_dim_p, [np.float32(2)], {"broadcast_dimensions": (), "shape": (2, 0)}), (p.sort_p, [empty], SORT),
        (p.mul_p, [np.float32(3), ones], {})])


def key_arrays() -> Any:
    """Return operations on arrays of typed PRNG keys."""
    keys = np.arange(12, dtype=np.uint32).reshape(3, 2, 2).view(dtypes.key_type("fry")).reshape(3, 2)
    data = np.arange(8, dtype=np.uint32).reshape(2, 4)
    gather = {"dimension_numbers": p.GatherDimensionNumbers((1,), (0,), (0,)), "fill_value": None, "indices_are_sorted": False,
              "slice_sizes": (1, 2), "mode": p.GatherScatterMode.PROMISE_IN_BOUNDS, "unique_indices": False}
    return program_of_uses([
        (p.random_unwrap_p, [keys], {"use": "bits"}), (p.random_wrap_p, [data], {"impl": "rbg"}),
        (p.random_wrap_p, [data], {"impl": "urbg"}), (p.transpose_p, [keys], {"permutation": (1, 0)}),
        (p.eq_p, [keys, keys[::-1]], {}), (p.select_p, [np.arange(6).reshape(3, 2) % 2 == 0, keys, keys[::-1]], {}),
        (p.concatenate_p, [keys, keys], {"dimension": 1}),
        (p.gather_p, [keys, np.array([[2], [0]], np.int32)], gather)])


# --- traced functions, with their source lines and trees ----------------------------------------------------------
def in_file(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the source lines of a function start at line 1 of a file, wherever it is in this one."""
    def move(code: Any) -> Any:
        consts = tuple([move(c) if hasattr(c, "co_filename") else c for c in code.co_consts])
        return code.replace(co_filename=name, co_firstlineno=1, co_consts=consts)
    function.__code__ = move(function.__code__)
    return function


def network() -> Saved:
    """Return a training step of a network of two layers."""
    import lamina_numpy as jnp  # the tests of lamina-ir run without the packages above it
    from lamina_autodiff import value_and_grad
    from lamina_tracing import jit, make_jaxpr

    def loss(params: Any, x: Any, y: Any) -> Any:
        (w, b), (v, c) = params["hidden"], params["out"]
        hidden = jnp.tanh(x @ w + b)
        scores = hidden @ v + c
        return -(jnp.take_along_axis(scores - jnp.log(jnp.exp(scores).sum(1, keepdims=True)), y[:, None], 1)).mean()

    def step(params: Any, x: Any, y: Any) -> Any:
        value, grads = value_and_grad(jit(in_file("train.py", loss)))(params, x, y)
        return value, trees.tree_map(lambda p, g: p - 0.1 * g, params, grads)

    draw = np.random.RandomState(3)
    of = lambda *s: draw.normal(size=s).astype(np.float32)
    args = ({"hidden": (of(3, 5), of(5)), "out": (of(5, 2), of(2))}, of(4, 3), np.array([0, 1, 1, 0], np.int32))
    program = make_jaxpr(in_file("train.py", step))(*args)
    leaves, ins = trees.tree_flatten(args)
    return "program-network", program, leaves, {"sources": True, "trees": (ins, trees.tree_structure(step(*args)))}


def sampler() -> Saved:
    """Return random draws from a typed key that is split."""
    import lamina_random as random
    from lamina_tracing import make_jaxpr

    @lambda f: in_file("sample.py", f)
    def draw(key: Any) -> Any:
        one, two = random.split(key)
        return random.uniform(one, (5,)), random.bits(two, (3,)), random.bernoulli(two, 0.3, (4,)), random.normal(one, (3,))

    data = np.array([7, 11], np.uint32)
    program = make_jaxpr(in_file("sample.py", lambda w: draw(random.wrap_key_data(w))))(data)
    structures = trees.tree_structure((0,)), trees.tree_structure((0, 0, 0, 0))
    return "program-sampler", program, [data], {"sources": True, "trees": structures}


def programs() -> Iterator[Saved]:
    """Yield the programs of the corpus that are not samples of one primitive."""
    for name in SMALL_FLOATS:
        yield f"dtype-{name}", small_float(name), None, {}
    for name in INTEGERS:
        yield f"dtype-{name}", integer(name), None, {}
    for name in ("f64", "c128"):
        yield f"dtype-{name}", wide_number(name), None, {}
    yield "program-empty", empty_arrays(), None, {}
    yield "program-keys", key_arrays(), None, {}
    literals, nested, mapped = ((TEXTS / f"{n}.txt").read_text(encoding="utf-8") for n in ("literals", "nested", "mapped"))
    yield "program-literals", parse(literals), None, {}
    draw = np.random.RandomState(1)
    program = parse(nested, consts=[draw.normal(size=3).astype(np.float32)])
    for n in (0, 1):
        yield f"program-nested-{n}", program, [draw.normal(size=(4, 3)).astype(np.float32), np.int32(n)], {}
    yield "program-mapped", parse(mapped), [draw.normal(size=(3, 2)).astype(np.float32), np.float32([2, -1])], {}
    yield network()
    yield sampler()


# --- files ----------------------------------------------------------------------------------------------------------
def with_results(program: Any, results: list[Any]) -> Any:
    """Return a program on constants that also returns `results`, as constants."""
    arrays = [np.asarray(r) for r in results]
    variables = [Var(shaped(a.shape, a.dtype)) for a in arrays]
    jaxpr = program.jaxpr
    extended = Jaxpr([*jaxpr.constvars, *variables], [], jaxpr.eqns, [*jaxpr.outvars, *variables])
    return ClosedJaxpr(extended, [*program.consts, *arrays])


def samples_program(prim: Any) -> Any:
    """Return all samples of a primitive with their results; those of collectives are device 0's."""
    constvars, consts, eqns, outs, results = [], [], [], [], []
    for sample in samples_of(prim):
        program = make_sample_program(sample)
        if prim.axis_params:
            results += [xs[0] for xs in evaluate_spmd(program, AXES, [[a] * AXES.size for a in sample.args])]
        else:
            results += evaluate(program, *sample.args)
        constvars += program.jaxpr.invars
        consts += sample.args
        eqns += program.eqns
        outs += program.jaxpr.outvars
    return with_results(ClosedJaxpr(Jaxpr(constvars, [], eqns, outs), consts), results)


def files() -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of all that this version writes."""
    for prim in p.ALL:
        if samples_of(prim):
            try:
                yield f"{prim.name}.lamina", dumps(samples_program(prim))
            except ProgramError as error:  # a parameter is a function
                print(f"saved_program_corpus: left out {prim.name}: {error}")
    for name, program, args, options in programs():
        results = evaluate(program, *(args or ()))
        yield f"{name}.lamina", dumps(program if args is not None else with_results(program, results), **options)
        if args is not None:
            yield f"{name}.values.lamina", dumps(with_results(ClosedJaxpr(Jaxpr([], [], [], []), []), [*args, *results]))


def content(data: bytes) -> tuple[Any, bytes]:
    """Return what a file holds, without the version that wrote it."""
    header, buffers = split_saved(data)
    return {key: value for key, value in header.items() if key != "writer"}, buffers


def version_number(folder: Path) -> tuple[int, ...]:
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in folder.name.split("."))


def read_index(path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=CORPUS)
    parser.add_argument("--version", default=__version__)
    options = parser.parse_args(argv)
    folder = options.out / options.version
    folder.mkdir(parents=True, exist_ok=True)
    earlier = sorted([f.parent for f in options.out.glob("*/index.json") if f.parent != folder], key=version_number)
    before, index = read_index(earlier[-1] / "index.json") if earlier else {}, read_index(folder / "index.json")
    added = 0
    for name, data in files():
        loads(data)
        if name in index and (options.out / index[name]).exists():
            continue
        old = before.get(name)
        if old and content((options.out / old).read_bytes()) == content(data):
            index[name] = old
        else:
            index[name] = f"{options.version}/{name}"
            if not (folder / name).exists():
                (folder / name).write_bytes(data)
                added += 1
    text = json.dumps(index, indent=0, sort_keys=True) + "\n"
    if not (folder / "index.json").exists() or (folder / "index.json").read_text(encoding="utf-8") != text:
        (folder / "index.json").write_text(text, encoding="utf-8")
    print(f"saved_program_corpus: {len(index)} files of {options.version}, {added} added to {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
