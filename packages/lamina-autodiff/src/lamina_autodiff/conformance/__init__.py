"""What differentiation means, as tests: `python -m lamina_autodiff.conformance [pytest arguments]`.

A function of arrays has at each point one linear map that approximates it, and everything here is that map or its transpose.

- `jvp` and `linearize` apply it; `vjp`, `grad` and `linear_transpose` apply its transpose, for which `<ct, J t> == <J' ct, t>`;
  `jacfwd`, `jacrev` and `hessian` write it out. Complex numbers count as pairs of reals: the gradient of a real function
  `u(x + iy)` is `u_x - i u_y`; of a holomorphic one, where that is asked for, its complex derivative.
- Tangents have the types of what they belong to, integers and booleans those of `float0`. Trees go in and come out.
- Derivatives are functions: they can be differentiated again, the tangents of each level kept apart, and staged.
- Members of a mapped axis are one function from all inputs to all outputs, and collectives are differentiated as that.
- Rules of the user's (`custom_jvp`, `custom_vjp`, `custom_gradient`, `custom_linear_solve`, `custom_root`, `linear_call`) are
  what the derivative is, whether they are right or not. `checkpoint` changes what is kept and never a value.
- An op without a derivative is refused by a `MissingRuleError` that names it; what does not fit, by a `TypeError` or
  `ValueError` that names the argument.

The oracles are central differences of the ops' NumPy meanings, closed forms, and dense matrices.

Marks. `core`, `order` (derivatives of derivatives) and `collectives` are what the words above say: an implementation has them
all. `backward` asks for what only a walk from the results to the arguments can give: rules of the user's that are not linear in
the cotangent; one that pushes forward only may leave it out (`-m "not backward"`) and refuses such rules. `cost` asks that a
gradient of many arguments takes a few times the ops of its function, that linear functions are applied without running it
again, and that `checkpoint` keeps less; one that pushes forward only, or computes again instead of keeping, may leave it out.
`rows` asks that rows of `jvp_rules` and `transpose_rules`, added or put in another's place, are what is done; one that consults
no table may leave it out, and then takes no rules for new ops.
"""
