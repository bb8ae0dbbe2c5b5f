"""Conformance tests of lamina-tracing. Run them on any implementation: `python -m lamina_tracing.conformance`.

A function of arrays can be run primitive by primitive, or staged to a program that is run; both give the same
results.

- `bind` passes a primitive to the innermost transformation among its operands, and finally to the evaluator. Without
  a transformation the result is that of the NumPy evaluation. The functions of `lax` are defined with primitives.
- `make_jaxpr` records what a function does, in order, with constants. The program is well formed and computes the
  function. `eval_shape` returns the result types and runs nothing.
- `jit(f)` equals `f`. A function is traced again if types, trees or static arguments change, and never if only values
  change. Its effects run at every call. `disable_jit` runs it as Python.
- Branches and loops equal Python's, on trees, with closures, staged or not.
- Effects run once per run; ordered effects run in program order.
- Tracers cannot be converted to numbers; the error explains it. Leaked tracers are reported.
- An installed hook is used until it is replaced. A third-party `Trace` is a transformation like the built-in ones. The
  hooks of its tracers (`concrete_value`, `underlying_value`) are used at every level.

The references are the NumPy evaluation of primitives, `lamina_ir.evaluate` and plain Python.

Marks, and which implementations may leave them out (`-m "not cost"`):

- `core`, `collectives` (programs over named axes) and `order` (effects, nested transformations): the properties
  above. Nothing is optional.
- `cost`: a function is traced once per signature, the size of a program does not depend on the length of a loop, and
  a closed-over array is stored once. An implementation that traces at every call may leave it out.
"""
