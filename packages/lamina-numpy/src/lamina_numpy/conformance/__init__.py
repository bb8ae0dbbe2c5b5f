"""What lamina-numpy means, as tests: run them on any implementation by `python -m lamina_numpy.conformance`.

A function means what NumPy's function of its name means: the same arguments, the same shapes, the same numbers to the
tolerance of the dtype. Where it differs it does so by four rules. Types meet in the lattice of `lamina_ir.dtypes`, 32 bits
wide as a rule, where numbers of Python are weak: they take the type of what they meet. Arrays never change: what NumPy writes
in place, `x.at[index]` gives as a changed copy. A position outside of an array is moved to its end where it is read, and left
out where it is written. And a function whose result's length depends on values takes `size=` where it is traced.

The same functions work on traced values: under `jit` and `vmap` they give what they give on arrays, and derivatives are those
of the function. Methods and operators of arrays and tracers are the functions; what is no array is refused by a TypeError, and
what does not fit by a ValueError.

The tests run on whatever evaluates: the NumPy evaluator where no runtime is loaded, devices with `-p lamina_runtime`.

Marks, and who may leave them out (`-m "not cost"`):

- `core`: values, types, indexing, methods, operators, transformations, what is refused. Nothing of it is optional.
- `order`: derivatives, of first and second order. An implementation that is never differentiated may leave it out.
- `cost`: that a function is a part of the program it is called in, traced once. Results do not depend on it.
"""
