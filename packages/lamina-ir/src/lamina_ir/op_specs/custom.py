"""Specs of calls with rules, and of ops that are the identity."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
For values, a call is its program, whatever its rules are: they say what transformations do with it.
"""

SPECS = [
    op("custom_jvp_call", "const... x...", "those of the program", "The program's results on the operands.",
       jvp="""a rule: of the operands and the tangents of inexact operands behind the constants, results and tangents of
       inexact results"""),
    op("custom_vjp_call", "const... x...", "those of the program", "The program's results on the operands.",
       fwd="a rule: of the operands, results and residuals",
       bwd="a rule: of residuals and cotangents of inexact results, cotangents of inexact operands behind the constants"),
    op("custom_vmap_call", "const... x...", "those of the program", "The program's results on the operands.",
       rule="a rule for batches, which is no program"),
    op("name", "x", "like x", "x.", name="the value's name, for checkpoint policies"),
    op("optimization_barrier", "x...", "like the operands", "The operands."),
    op("remat", "x...", "those of the program", "The program's results on the operands.",
       differentiated="no part of the meaning",
       policy="null, or a record `CheckpointPolicy`: what derivatives keep; no part of the meaning",
       prevent_cse="no part of the meaning"),
    op("sharding_constraint", "x", "like x", "x.", sharding="how it is to lie on devices",
       unspecified_dims="axes that may lie in any way"),
    op("to_memory", "x", "like x", "x.", memory_kind="the memory it is to be in"),
    op("transposed_call", "held... x...", "those of the operands of `transpose_jaxpr` behind the held ones",
       """The linear map of x whose transpose, of (held..., cotangents of the results...), is `transpose_jaxpr`: the
       results r with sum(c r) = sum(x transpose_jaxpr(held..., c)) for all c. So element j of r is the sum of x times
       transpose_jaxpr(held..., 1 in the place j, 0 elsewhere).""",
       forward="a rule: the same map as a program of the operands, where that is known",
       num_held="how many operands are held", transpose_jaxpr="the program of the transpose"),
]
