"""Conformance tests of lamina-ir. Run them on any implementation: `python -m lamina_ir.conformance`.

Programs are data, and every operation on a program keeps its results.

- Every primitive has one definition, on NumPy arrays. `evaluate` runs a program, `evaluate_spmd` runs it on all
  members of mapped axes in lockstep. Results have exactly the types that the type rule of the primitive gives.
- A program can be printed and parsed, and saved as bytes and JSON and loaded; the result is the same program. Damaged
  or ill-formed input is rejected with a `ProgramError` before anything runs.
- `check` accepts well-formed programs and rejects others. `dce`, `cse`, `inline_calls`, `fold_constants`,
  `partial_eval` and an empty `rewrite` change no result. Effects are not dropped, repeated or reordered.
- A `RuleTable` returns the current rule: defined, overridden inside a block, derived from facts, or missing with a
  reason.
- Trees can be flattened and unflattened, with any node classes.

The references are expressions of NumPy and Python that use nothing of this package, and numbers computed by hand.

Marks. An alternative implementation of this layer is a fork with the same import name, and every other layer needs
it:

- `core`, `order` (effects) and `collectives`: the properties above. Nothing is optional.
- `cost`: time and memory are proportional to the length of a program. A fork for reading only may leave it out (`-m
  "not cost"`).
"""
