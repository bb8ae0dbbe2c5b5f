"""Specs of calls with rules, and of primitives that are the identity."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The results of a call are those of its program. Its rules define the behaviour of transformations only.
"""

SPECS = [
    op("custom_jvp_call", "const... x...", "those of the program", "The program's results on the operands.",
       jvp="""a rule: (operands, tangents of the inexact operands after the constants) -> (results, tangents of the inexact
       results)"""),
    op("custom_vjp_call", "const... x...", "those of the program", "The program's results on the operands.",
       fwd="a rule: operands -> (results, residuals)",
       bwd="""a rule: (residuals, cotangents of the inexact results) -> cotangents of the inexact operands after the
       constants"""),
    op("custom_vmap_call", "const... x...", "those of the program", "The program's results on the operands.",
       rule="a rule for batches, which is not a program"),
    op("name", "x", "like x", "x.", name="the value's name, for checkpoint policies"),
    op("optimization_barrier", "x...", "like the operands", "The operands."),
    op("remat", "x...", "those of the program", "The program's results on the operands.",
       differentiated="no part of the meaning",
       policy="null, or a record `CheckpointPolicy`: the values saved for derivatives; no part of the meaning",
       prevent_cse="no part of the meaning"),
    op("sharding_constraint", "x", "like x", "x.", sharding="the sharding of the result on devices",
       unspecified_dims="axes whose sharding is free"),
    op("to_memory", "x", "like x", "x.", memory_kind="the memory of the result"),
    op("transposed_call", "const... x...", "those of the operands of `transpose_jaxpr` after the constants",
       """The linear map of x whose transpose is `transpose_jaxpr`, a program of (const..., cotangents of the results...):
       the results r with sum(c r) = sum(x transpose_jaxpr(const..., c)) for all c. So element j of r is the sum of x times
       transpose_jaxpr(const..., e_j), where e_j is 1 at position j and 0 elsewhere.""",
       forward="a rule: the same map as a program of the operands, if known",
       num_held="how many operands are constants", transpose_jaxpr="the program of the transpose"),
]
