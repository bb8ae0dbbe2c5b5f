"""For people who add ops: names and kinds of params, how an op that holds programs is wired, host functions."""
from ..flow import CARRIED, CHOOSES, Flow, HELD, Operands, STACKED, carried, chooses, held, stacked
from ..params import UnnamedAxis, plain_text, register_param_type
from ..prims import register as register_primitive
from ..prims.callbacks import HostFunction, host_call, register_host_function
from ..program import axis_names_of
from ..spmd import AxisEnv

__all__ = ["AxisEnv", "CARRIED", "CHOOSES", "Flow", "HELD", "HostFunction", "Operands", "STACKED", "UnnamedAxis",
           "axis_names_of", "carried", "chooses", "held", "host_call", "plain_text", "register_host_function",
           "register_param_type", "register_primitive", "stacked"]
