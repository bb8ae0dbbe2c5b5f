"""Extension API: the rule table of Taylor mode.

`jet_rules` maps a primitive to `rule(order, operands, /, **params)`. An operand is the list of its Taylor coefficients
(`order + 1` of them): the value first, None for a later one that is zero. The rule returns the list of the result, or one
list per result if the primitive has several. A primitive without a rule uses its JVP rule.
"""
from ._programs import jet_rules

__all__ = ["jet_rules"]
