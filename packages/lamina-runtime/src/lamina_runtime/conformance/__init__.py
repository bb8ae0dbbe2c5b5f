"""What lamina-runtime means, as tests: run them on any implementation by `python -m lamina_runtime.conformance`.

A runtime fills two slots of lamina-tracing. Its evaluator runs ops and programs on values: each gives what its NumPy meaning
gives, in shape, dtype and weak type, to the tolerance of the dtype. Its dispatcher makes a function that is staged into a
call that is repeated: a call gives what the function gives, whatever was called before it and whichever threads call. Its
arrays are values: nothing changes one, what went in comes out, and what was given away is not used by mistake.

How it computes is its own affair: with a compiler or without, on one device or on many, at once or later. The tests wait
where a person would, by reading a value, and ask for no more devices than `device_count()` says there are.

Marks, and who may leave them out (`-m "core or order"`):

- `core`: values, types, calls, errors, places. Nothing of it is optional.
- `collectives`: several devices, as many as there are. With one device they ask the same of one; a runtime that never has
  more may leave them out.
- `order`: calls of the host one after another. Programs that print, log or write files rest on it; one that has no
  `io_callback` may leave it out, and says so.
- `cost`: what is not done twice, what is let go, and memory that is given up: donated and deleted arrays say so when they are
  used. Results do not depend on it; long-running programs do.
"""
