"""What tracing means, as tests: `python -m lamina_tracing.conformance [pytest arguments]`.

A function of arrays is one thing, run op by op or written down as a program and run as that.

- `bind` hands an op to the innermost transformation among its operands, and at the end of every walk to the evaluator. Without
  a transformation its result is that of the op's NumPy meaning; `lax` says in functions what the ops do.
- `make_jaxpr` writes down what a function does, in order, constants and all; the program is well formed and means the function.
  `eval_shape` tells its types and runs nothing.
- `jit(f)` is `f`. A function is traced again when types, trees or static arguments change, and never because values do; what
  it does beside its results happens at every call. `disable_jit` runs it as Python.
- Branches and loops do what Python's do, on trees, closing over whatever is around, staged or not.
- Effects happen once per run and ordered ones in the order they are written in.
- Traced values are no numbers, and say so; those that outlive their function are told.
- What fills a slot is obeyed until another does; a `Trace` of anybody's is a transformation like ours.

The oracles are the ops' NumPy meanings, `lamina_ir.evaluate` and plain Python.

Marks. `core`, `collectives` (programs that speak over named axes) and `order` (effects, and transformations one in another)
are what the words above say: an implementation has them all. `cost` asks that a function is traced once per signature, that
a program does not grow with the length of a loop, and that what is closed over is kept once; one that traces anew at each
call may leave it out (`-m "not cost"`), and is then as slow as that.
"""
