"""For people who add ops: names and kinds of params, how an op that holds programs is wired, axes of collectives, host
functions, upgrades of saved equations.

`HELD`, `CARRIED`, `STACKED` and `CHOOSES` are the kinds of operands that `Operands` describes and `held`, `carried`,
`stacked` and `chooses` make. `upgrades` is the `UpgradeTable` that `loads` reads.
"""
from ..flow import CARRIED, CHOOSES, Flow, HELD, Operands, STACKED, carried, chooses, held, stacked
from ..params import register_param_type
from ..prims import register as register_primitive
from ..prims.callbacks import HostCall, HostFunction, register_host_function
from ..program import axis_names_of
from ..spmd import (as_axis_name, axis_names, checked_axis_name, checked_groups, checked_index, checked_permutation, split_axes,
                    unbound_axis)
from ..upgrades import SavedEqn, UpgradeTable, upgrades

__all__ = ["CARRIED", "CHOOSES", "Flow", "HELD", "HostCall", "HostFunction", "Operands", "STACKED", "SavedEqn",
           "UpgradeTable", "as_axis_name", "axis_names", "axis_names_of", "carried", "checked_axis_name",
           "checked_groups", "checked_index", "checked_permutation", "chooses", "held", "register_host_function",
           "register_param_type", "register_primitive", "split_axes", "stacked", "unbound_axis", "upgrades"]
