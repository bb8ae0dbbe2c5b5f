"""Extension API for new primitives: param types, region signatures, axes of collectives, host functions, and upgrades
of saved equations.

`CONST`, `CARRY`, `SCANNED` and `SELECTOR` are the kinds of operands in an `OperandGroup`; `const_operands`,
`carry_operands`, `scanned_operands` and `selector_operand` make groups. `loads` uses the `UpgradeTable` `upgrades`.
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
