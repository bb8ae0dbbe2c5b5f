"""Conformance tests of lamina-parallel. Run them on any implementation: `python -m lamina_parallel.conformance`.

A map over a named axis takes the inputs of all members to the results of all members. `pmap`, `xmap`, `shard_map` and
`padded` define the members in different ways: along one dimension, along several named dimensions, as blocks over a
mesh, or as any number of slots. Results are those of NumPy, member by member. `reference.py` defines each collective
as a function of all members. Derivatives are those of the mapped function as a whole, so the transpose of a
collective is that of its matrix. Transformations work outside and inside maps.

This layer is also the first that imports both autodiff and batching. Their combination is tested here, for
alternative implementations of one or both (`LAMINA_LAYERS=autodiff=...,batching=... python -m
lamina_parallel.conformance test_autodiff_and_batching.py`).

Resources never change a result: an `xmap` with axes on a mesh or in a `SerialLoop` gives the values of one without
resources.

The tests run on the installed evaluator and dispatcher. Without a runtime, the NumPy evaluator runs the members in
lockstep in this process. With one, they run on devices: `XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m
lamina_parallel.conformance -p lamina_runtime`. The tests use four members, so a runtime needs four devices.

Marks, and which implementations may leave them out (`-m "core or collectives"`):

- `core`: mapped axes of arguments and results, nesting, errors. Nothing is optional.
- `collectives`: communication between members. An implementation without communication may leave it out.
- `order`: derivatives of maps and collectives, to second order. An implementation without derivatives may leave it
  out.
- `cost`: a function is traced once for arguments of the same types. Results do not depend on it.
"""
