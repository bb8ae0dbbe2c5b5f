"""What batching means, as tests: `python -m lamina_batching.conformance [pytest arguments]`.

`vmap(f)` is the function of a whole batch that does what a loop does: take each example from the mapped axes, apply `f`, and
stack the results. How it does so is an implementation's own affair: op by op, example by example, or in pieces.

- `in_axes` says which axis of each argument holds the examples, `None` that all examples share the argument as it is;
  `out_axes` says where the results are stacked, `None` that a result is the same for all. Both are prefixes of trees.
- Maps nest, each with an axis of its own, and a map of a staged, looping or branching function is the map of what it does.
- Collectives over a named axis have the meaning of docs/internals/collectives.md, including those over other axes in scope
  and over nested names.
- `custom_vmap` puts a rule of the user's in place of all that; `sequential_vmap` runs the examples in their order.
- What does not fit is refused by a `TypeError` or `ValueError` that names the argument.

The oracle is a loop over the NumPy meaning of each op (`lamina_ir.evaluate_primitive`).

Marks. `core`, `collectives` and `order` are what the words above say: an implementation has them all. `cost` asks that a
function runs once per batch, binds an op as often for a hundred examples as for one, and leaves what is shared alone; one
that works by a loop may leave it out (`-m "not cost"`), and then promises no speed. `rows` asks that rows added to
`batching_rules`, or put in another's place, are what is done; one that consults no table may leave it out, and then takes no
rules for new ops.
"""
