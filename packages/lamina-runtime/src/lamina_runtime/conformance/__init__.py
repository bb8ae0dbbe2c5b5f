"""Conformance tests of lamina-runtime. Run them on any implementation: `python -m lamina_runtime.conformance`.

A runtime installs two hooks of lamina-tracing. Its evaluator runs primitives and programs on values. Each result
equals the NumPy evaluation in shape, dtype and weak type, and within the tolerance of the dtype. Its dispatcher turns
a staged function into a repeated call. The call returns what the function returns, for any history of calls and from
any thread. Arrays are immutable values: they convert to and from NumPy without change, and a donated array cannot be
used by mistake.

An implementation may use a compiler or not, one device or many, and run synchronously or not. The tests wait by
reading values, and use at most `device_count()` devices.

Marks, and which implementations may leave them out (`-m "core or order"`):

- `core`: values, types, calls, errors, devices. Nothing is optional.
- `collectives`: several devices, as many as there are. With one device they test that one; a runtime that never has
  more may leave it out.
- `order`: ordered host callbacks. Programs that print, log or write files need them; a runtime without `io_callback`
  may leave it out.
- `cost`: caching, release of memory, and errors for the use of donated and deleted arrays. Results do not depend on
  it, but long-running programs do.
"""
