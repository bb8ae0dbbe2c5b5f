"""Conformance tests of lamina-autodiff. Run them on any implementation: `python -m lamina_autodiff.conformance`.

At each point, the derivative of a function of arrays is a linear map. All functions here apply this map or its
transpose.

- `jvp` and `linearize` apply the map. `vjp`, `grad` and `linear_transpose` apply its transpose, for which `<ct, J t>
  == <J' ct, t>`. `jacfwd`, `jacrev` and `hessian` return it as an array. Complex numbers count as pairs of reals: the
  gradient of a real function `u(x + iy)` is `u_x - i u_y`. For a holomorphic function, if requested, it is the
  complex derivative.
- Tangents have the types of their primals; those of integers and booleans are `float0`. Arguments and results are
  trees.
- Derivatives are functions. They can be staged and differentiated again, with separate tangents at each level.
- The members of a mapped axis are one function from all inputs to all outputs; collectives are differentiated as
  such.
- Rules of the user (`custom_jvp`, `custom_vjp`, `custom_gradient`, `custom_linear_solve`, `custom_root`,
  `linear_call`) define the derivative, whether they are correct or not. `checkpoint` changes the stored residuals and
  never a value.
- A primitive without a derivative is rejected with a `MissingRuleError` that names it. Wrong arguments are rejected
  with a `TypeError` or `ValueError` that names the argument.

The references are central differences of the NumPy evaluation, closed forms and dense matrices.

Marks, and which implementations may leave them out (`-m "not backward"`):

- `core`, `order` (derivatives of derivatives) and `collectives`: the properties above. Nothing is optional.
- `backward`: behaviour that needs reverse mode, such as custom VJP rules that are not linear in the cotangent. An
  implementation with forward mode only may leave it out and reject such rules.
- `cost`: a gradient of many arguments runs a small multiple of the primitives of its function, linear functions do
  not run the function again, and `checkpoint` stores less. An implementation with forward mode only, or one that
  recomputes instead of storing, may leave it out.
- `rules`: rules added to `jvp_rules` and `transpose_rules`, or overridden there, are used. An implementation without
  rule tables may leave it out; it then accepts no rules for new primitives.
"""
