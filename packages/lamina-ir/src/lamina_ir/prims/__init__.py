"""Every built-in primitive, as `<name>_p`; one module per family, the same file names in every room."""
from .. import param_kinds as _param_kinds
from .. import primitive as _primitive
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft,
               indexing, linalg, random_bits, reductions, shape, solves, sorting, special, windows)
from .callbacks import *
from .calls import *
from .collectives import *
from .control import *
from .convolution import *
from .custom import *
from .elementwise import *
from .factorizations import *
from .fft import *
from .indexing import *
from .linalg import *
from .random_bits import *
from .reductions import *
from .shape import *
from .solves import *
from .sorting import *
from .special import *
from .windows import *

FAMILIES = (elementwise, special, shape, reductions, windows, linalg, convolution, factorizations, fft, indexing,
            sorting, solves, random_bits, calls, callbacks, collectives, control, custom)
ALL = tuple(getattr(family, name) for family in FAMILIES for name in family.__all__
            if isinstance(getattr(family, name), _primitive.Primitive))
_BY_NAME = {p.name: p for p in ALL}
for _p in ALL:
    _p.kinds = {n: _param_kinds.BUILT_IN[n] for n in _p.params if n in _param_kinds.BUILT_IN and n not in _p.axis_params}


def by_name(name: str) -> _primitive.Primitive:
    """The built-in primitive of this printed name; KeyError when there is none."""
    return _BY_NAME[name]


def register(prim: _primitive.Primitive) -> _primitive.Primitive:
    """Make a primitive from outside known by name, so that printed and saved programs that use it can be read."""
    if _BY_NAME.setdefault(prim.name, prim) is not prim:
        raise ValueError(f"register: another primitive is already named {prim.name!r}")
    return prim
