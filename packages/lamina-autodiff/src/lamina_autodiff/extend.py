"""The door for people who write rows or replace a part of differentiation."""
from .flows import flow_jvp, flow_linearize, flow_row, flow_transpose
from .jvp import JVPTrace, JVPTracer, add_tangents, instantiate, run_jvp
from .linear import LinearProgram, LinearTrace, LinearTracer, is_linear, linearize_flat, record_linear
from .programs import Linearized, Pushforward, Transposed, jvp_program, linearize_program, transpose_program
from .rows import Slopes, Split
from .tables import jvp_rules, slope, transpose_rules, zero_jvp

__all__ = ["JVPTrace", "JVPTracer", "LinearProgram", "LinearTrace", "LinearTracer", "Linearized", "Pushforward",
           "Slopes", "Split", "Transposed", "add_tangents", "flow_jvp", "flow_linearize", "flow_row", "flow_transpose",
           "instantiate", "is_linear", "jvp_program", "jvp_rules", "linearize_flat", "linearize_program",
           "record_linear", "run_jvp", "slope", "transpose_program", "transpose_rules", "zero_jvp"]
