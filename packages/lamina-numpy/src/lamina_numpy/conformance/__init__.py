"""Conformance tests of lamina-numpy. Run them on any implementation: `python -m lamina_numpy.conformance`.

A function equals the NumPy function of the same name: same arguments, same shapes, same values within the tolerance
of the dtype. There are four differences. (1) Dtypes are promoted in the lattice of `lamina_ir.dtypes`, 32 bits wide
by default, and Python scalars are weakly typed. (2) Arrays are immutable: `x.at[index]` returns a changed copy where
NumPy writes in place. (3) An out-of-bounds index is clipped if it is read and ignored if it is written. (4) A traced
function whose result length depends on values takes `size=`.

The same functions work on traced values: under `jit` and `vmap` they give the same results as on arrays, and
derivatives are those of the function. Methods and operators of arrays and tracers equal the functions. Wrong types
raise TypeError, wrong values raise ValueError.

The tests run on the installed evaluator: the NumPy evaluator without a runtime, devices with `-p lamina_runtime`.

Marks, and which implementations may leave them out (`-m "not cost"`):

- `core`: values, types, indexing, methods, operators, transformations, errors. Nothing is optional.
- `order`: first and second derivatives. An implementation without derivatives may leave it out.
- `cost`: a function is inlined in the calling program and traced once. Results do not depend on it.
"""
