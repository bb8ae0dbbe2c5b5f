"""What lamina-parallel means, as tests: run them on any implementation by `python -m lamina_parallel.conformance`.

A map over a named axis takes all its rows to all its results. `pmap`, `xmap`, `shard_map` and `padded` are four ways to say
which rows there are: along a dimension, along dimensions with names, as blocks over a mesh, in rounds. What they compute is
one thing, and the tests ask for nothing else: the results are those of NumPy, row by row, and a collective is the function of
all rows that `meaning.py` writes down. Derivatives are those of the mapped function as a whole, so a collective's transpose is
that of its matrix; transformations outside of a map and inside of it mean what they mean elsewhere. This floor is also the
first that stands on both autodiff and batching: what they mean one in another is tried here, for stand-ins of either and both
(`LAMINA_LAYERS=autodiff=...,batching=... python -m lamina_parallel.conformance test_together.py`).

Resources never change a result: an `xmap` whose axes lie on a mesh or in a `SerialLoop` gives the numbers of one that has none.

The tests run on whatever evaluates and dispatches: the NumPy evaluator where no runtime is loaded (rows are then run in
lockstep in this process), and devices where there is one, as in
`XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m lamina_parallel.conformance -p lamina_runtime`. They take four
rows, so a runtime needs four devices.

Marks, and who may leave them out (`-m "core or collectives"`):

- `core`: what is mapped and where it goes, nesting, what is refused. Nothing of it is optional.
- `collectives`: what rows tell each other. An implementation for maps without communication may leave it out, and says so.
- `order`: derivatives, of maps and of collectives, to the second order. One that is never differentiated may leave it out.
- `cost`: what is done once: a function is traced once for arguments of the same types. Results do not depend on it.
"""
