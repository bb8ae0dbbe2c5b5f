"""What the ground floor means, as tests: `python -m lamina_ir.conformance [pytest arguments]`.

Programs are data, and everything that is done with a program keeps what it computes.

- Every op has one meaning, on NumPy arrays; `evaluate` runs a program of them, `evaluate_spmd` on all members of mapped axes in
  lockstep. Results have exactly the types that the op's type rule says.
- A program prints as text that parses back, and is saved as bytes and as JSON that load back, to the same program; what is
  damaged or ill formed is refused by a `ProgramError` before anything of it runs.
- `check` passes what is well formed and refuses what is not. `dce`, `cse`, `inline_calls`, `fold_constants`, `partial_eval`
  and `rewrite` with nothing to rewrite change no result; effects are neither dropped, doubled nor put in another order.
- A `RuleTable` gives the row in force: what was defined, overridden for a while, derived from facts, or refused with a reason.
- Trees flatten and come back, whatever node classes they are of.

The oracles are expressions of NumPy's and Python's own that no part of this package had a hand in, and numbers worked out by
hand.

Marks. A stand-in for this layer is a fork that keeps its import name, and every layer stands on it: `core`, `order` (effects)
and `collectives` are what the words above say, and none may be left out. `cost` asks that long programs take time and memory
in proportion; a fork that is only read by people may leave it out (`-m "not cost"`).
"""
