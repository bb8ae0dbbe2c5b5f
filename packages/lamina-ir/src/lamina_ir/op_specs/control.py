"""Specs of branches and loops."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Primitives that hold programs. The carry of a loop has the same types in each iteration. The operands and results of a program
must have the types given here, ignoring weak types. If members of mapped axes run in lockstep and a program inside refers to
an axis, all members must take the same branch and the same number of iterations.
"""

SPECS = [
    op("cond", "index x...", "those of every branch",
       "index is i32[]. The results of branches[index] on x...; of the last branch if the index is out of range.",
       branches="programs of x..., of equal types"),
    op("platform_index", "", "i32[]",
       """The index of the first group of names that contains the platform of the program, for which a reader may use
       `cpu`; the number of groups if there is none and has_default.""",
       has_default="whether there is a branch for other platforms", platforms="groups of names"),
    op("scan", "const... carry... xs...", "the carry; then the results y with an axis of `length` in front",
       """For i = 0, ..., length - 1: jaxpr(const..., carry..., xs[i]...) gives the next carry, and y[i].... With reverse
       i decreases.""", jaxpr="the program of an iteration", length="the number of iterations, and the first axis of each xs",
       num_carry="how many operands are the carry", reverse="whether it begins with the last slice",
       unroll="no part of the meaning"),
    op("while", "cond_const... body_const... carry...", "the carry",
       "While cond_jaxpr(cond_const..., carry...) is true: carry = body_jaxpr(body_const..., carry...).",
       body_jaxpr="the program of an iteration", body_nconsts="how many constants it has",
       cond_jaxpr="the program of the test, which returns a bool[]", cond_nconsts="how many constants it has",
       max_iters="null, or the number of iterations after which the loop ends even if the test is true"),
]
