"""Conformance tests of lamina-lowering. Run them on any implementation: `python -m lamina_lowering.conformance`.

`lower` translates a program to a compiler's language. Its result has the form `lamina_ir.interfaces.Lowered`: which of
the program's arguments are used, which constants precede them, the types of these and of the results, the donated
arguments, and the placement on devices. The compiled program returns what the NumPy evaluator returns for the program,
primitive by primitive and as a whole: equal shapes and dtypes, and values within the tolerance of the dtype. Equal
programs are lowered to equal bytes.

The language is open (`Lowered.format`). If the lowered object has a method `run(args)`, as that of the default
implementation has, the tests call it. Otherwise a runtime that accepts the format runs it; load it with
`-p lamina_runtime` and select it with `LAMINA_LAYERS=lowering=...,runtime=...`. Without either, the tests fail. They do
not check how the module is written.

Marks, and which implementations may leave them out (`-m "core or collectives"`):

- `core`: all primitives and programs, the form, rejected input. Nothing is optional, except that primitives over named
  axes are in `collectives`.
- `collectives`: maps over named axes and communication between their members. A lowering for one device may leave
  it out.
- `rules`: rules added to `lowering_rules`, or overridden there, are used; a primitive without a rule is rejected. An
  implementation without a rule table may leave it out; it then accepts no new primitives.
- `lines`: `source_map()` gives the user's line of each equation. Without it, errors and profiles have no lines.
- `cost`: a function that is called twice is lowered once, large constants stay outside, and donated memory is reused.
  Results do not depend on it.
"""
