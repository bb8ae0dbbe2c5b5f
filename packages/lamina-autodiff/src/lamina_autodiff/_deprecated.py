"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ._api.reverse import LinearizedFunction
from ._api.reverse_mode import make_reverse_mode
from ._engine.higher_order import make_higher_order_rule
from ._engine.jaxpr_derivatives import LinearizedProgram, TransposedProgram
from ._engine.replicated_cotangents import outside_map_context
from ._engine.rule_kinds import ElementwiseJVP, LinearizeRule
from ._engine.rule_tables import def_elementwise_jvp, def_zero_jvp

__all__ = [
    "Linearized", "Pulling", "Slopes", "Split", "Transposed", "flow_row", "from_outside", "reverse_by", "slope",
    "zero_jvp"]

@deprecated("use LinearizedProgram")
class Linearized(LinearizedProgram): ...

@deprecated("use LinearizedFunction")
class Pulling(LinearizedFunction): ...

@deprecated("use ElementwiseJVP")
class Slopes(ElementwiseJVP): ...

@deprecated("use LinearizeRule")
class Split(LinearizeRule): ...

@deprecated("use TransposedProgram")
class Transposed(TransposedProgram): ...

@deprecated("use make_higher_order_rule")
def flow_row(*args: Any, **kwargs: Any) -> Any: return make_higher_order_rule(*args, **kwargs)

@deprecated("use outside_map_context")
def from_outside(*args: Any, **kwargs: Any) -> Any: return outside_map_context(*args, **kwargs)

@deprecated("use make_reverse_mode")
def reverse_by(*args: Any, **kwargs: Any) -> Any: return make_reverse_mode(*args, **kwargs)

@deprecated("use def_elementwise_jvp")
def slope(*args: Any, **kwargs: Any) -> Any: return def_elementwise_jvp(*args, **kwargs)

@deprecated("use def_zero_jvp")
def zero_jvp(*args: Any, **kwargs: Any) -> Any: return def_zero_jvp(*args, **kwargs)
