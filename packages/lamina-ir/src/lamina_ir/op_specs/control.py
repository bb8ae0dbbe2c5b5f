"""Specs of branches and loops."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Programs among the params. A loop's carry has the same types in each turn; weak types aside, a program's operands and results
must be those said here. Where members of mapped axes run in lockstep and a program inside refers to an axis, all must take
the same branch and the same number of turns.
"""

SPECS = [
    op("cond", "index x...", "those of every branch",
       "index is i32[]. The results of branches[index] on x...; of the last one where the index is out of range.",
       branches="programs of x..., of equal types"),
    op("platform_index", "", "i32[]",
       """The position of the first group of names that holds the platform of the program, for which a reader may take
       `cpu`; the number of groups if there is none and has_default.""",
       has_default="whether there is a branch for other platforms", platforms="groups of names"),
    op("scan", "const... carry... xs...", "the carry; then the results y with an axis of `length` in front",
       """For i = 0, ..., length - 1: jaxpr(const..., carry..., xs[i]...) gives the next carry, and y[i].... With reverse
       i goes down.""", jaxpr="the program of a turn", length="how many turns, and the first axis of each xs",
       num_carry="how many operands are the carry", reverse="whether it begins with the last",
       unroll="no part of the meaning"),
    op("while", "cond_const... body_const... carry...", "the carry",
       "While cond_jaxpr(cond_const..., carry...) is true: carry = body_jaxpr(body_const..., carry...).",
       body_jaxpr="the program of a turn", body_nconsts="how many constants it has",
       cond_jaxpr="the program of the test, which gives a bool[]", cond_nconsts="how many constants it has",
       max_iters="null, or after how many turns the loop ends whatever the test says"),
]
