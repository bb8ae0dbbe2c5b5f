"""Extension API for new primitives: param types, region signatures, axes of collectives, host functions, upgrades
of saved equations, and docstrings of families of functions.

`CONST`, `CARRY`, `SCANNED` and `SELECTOR` are the kinds of operands in an `OperandGroup`; `const_operands`,
`carry_operands`, `scanned_operands` and `selector_operand` make groups. `loads` uses the `UpgradeTable` `upgrades`.
"""
from typing import TYPE_CHECKING

from ..layers import deprecated_getattr

from .._core.region_signature import (CARRY, SELECTOR, RegionSignature, CONST, OperandGroup, SCANNED, carry_operands,
                                      selector_operand, const_operands, scanned_operands)
from .._types.param_values import register_param_type
from ..prims import register_primitive
from ..prims.callbacks import HostCall, HostFunction, register_host_function
from .._core.jaxpr import find_axis_names
from .._core.axis_env import (as_axis_name, check_axis_names, check_axis_name, check_groups, check_member_index,
                              check_permutation, split_axis_names, unbound_axis_error)
from .._serialize.upgrades import SavedEqn, UpgradeTable, upgrades
from .._util.docstrings import docstring_entries, fill_docstring

__all__ = ["CARRY", "CONST", "HostCall", "HostFunction", "OperandGroup", "RegionSignature", "SCANNED", "SELECTOR",
           "SavedEqn", "UpgradeTable", "as_axis_name", "carry_operands", "check_axis_name", "check_axis_names",
           "check_groups", "check_member_index", "check_permutation", "const_operands", "docstring_entries",
           "fill_docstring", "find_axis_names", "register_host_function", "register_param_type", "register_primitive",
           "scanned_operands", "selector_operand", "split_axis_names", "unbound_axis_error", "upgrades"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
