"""Conformance tests of lamina-batching. Run them on any implementation: `python -m lamina_batching.conformance`.

`vmap(f)` applies `f` to a whole batch and gives the results of a loop: take each example from the mapped axes, apply
`f`, stack the results. An implementation may work primitive by primitive, example by example, or in chunks.

- `in_axes` gives the mapped axis of each argument; with `None`, all examples share the argument. `out_axes` gives the
  axis of the examples in each result; with `None`, the result is the same for all. Both can be tree prefixes.
- Maps nest, each with a separate axis. The map of a staged, looping or branching function equals the loop over it.
- Collectives over a named axis are defined in docs/design/collectives.md, including those over outer axes and over
  nested axes of equal names.
- `custom_vmap` uses a batching rule of the user; `sequential_vmap` runs the examples in order.
- Wrong arguments are rejected with a `TypeError` or `ValueError` that names the argument.

The reference is a loop over the NumPy evaluation of each primitive (`lamina_ir.evaluate_primitive`).

Marks, and which implementations may leave them out (`-m "not cost"`):

- `core`, `collectives` and `order` (nested maps): the properties above. Nothing is optional.
- `cost`: a function runs once per batch, binds a primitive as often for a hundred examples as for one, and does not
  batch shared values. An implementation that works by a loop may leave it out.
- `rules`: rules added to `batching_rules`, or overridden there, are used. An implementation without a rule table may
  leave it out; it then accepts no rules for new primitives.
"""
