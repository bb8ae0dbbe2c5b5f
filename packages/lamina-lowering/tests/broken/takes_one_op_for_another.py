"""Defect: `expm1` is lowered to `exp`."""
from lamina_ir import prims
from lamina_lowering._default import *

__contract__ = 1

lowering_rules.define(prims.expm1_p, lowering_rules[prims.exp_p])
