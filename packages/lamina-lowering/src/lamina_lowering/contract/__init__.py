"""What lamina-lowering means, as tests: run them on any implementation by `python -m lamina_lowering.contract`.

`lower` writes a program in a compiler's language. What it makes is of the form `lamina_ir.seams.Lowered`: it says which of the
program's arguments are taken, which constants come before them, the types of all that and of the results, what was donated,
and how it lies on devices. When it is run, it gives what the NumPy evaluator gives for the program, op by op and as a whole,
in shape and dtype, and to the tolerance of the dtype in value. Equal programs are lowered to equal bytes.

The language is open (`Lowered.format`). An object that has a method `run(args)`, as the stock's has, is run by it; another one
by a runtime that accepts the format, loaded by `-p lamina_runtime` and chosen by `LAMINA_LAYERS=lowering=...,runtime=...`; one
that cannot be run fails, since nothing could be said of it. How the module is written is nowhere asked.

Marks, and who may leave them out (`-m "core or collectives"`):

- `core`: every op and program, the form, what is refused. Nothing of it is optional, except that ops over rows are in
  `collectives`.
- `collectives`: maps over named axes and what rows tell each other. A lowering for one device may leave it out.
- `rows`: rows added to `lowering_rules` or put in another's place are what is used, and an op without one is refused. One
  without a table may leave it out, and then takes no new ops.
- `lines`: `source_map()` tells the user's line of each equation. Without it errors and profiles do not know lines.
- `cost`: what is called twice is lowered once, large constants stay outside, and donated memory is used again. Results do not
  depend on it.
"""
