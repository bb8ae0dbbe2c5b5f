"""All built-in primitives, as `<name>_p`; one module per family, with the same file names in every package."""
from .._core import param_types as _param_kinds
from .._core.primitive import Primitive as _Primitive
# `get_primitive` is part of this namespace, and pickles refer to it
from .._core.primitive import get_primitive, register_primitive  # noqa: F401
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft,
               indexing, maps, products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)
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
from .maps import *
from .products import *
from .random_bits import *
from .random_keys import *
from .reductions import *
from .shape import *
from .solves import *
from .sorting import *
from .special import *
from .windows import *

FAMILIES = (elementwise, special, shape, reductions, windows, products, convolution, factorizations, fft, indexing,
            sorting, solves, random_bits, random_keys, calls, maps, callbacks, collectives, control, custom)
ALL = tuple(getattr(family, name) for family in FAMILIES for name in family.__all__
            if isinstance(getattr(family, name), _Primitive))
for _p in ALL:
    register_primitive(_p)
    _p.kinds |= {n: _param_kinds.BUILTIN_KINDS[n] for n in _p.params
                 if n in _param_kinds.BUILTIN_KINDS and n not in _p.axis_params}
    _p.undeclared_programs = ()  # built-in primitives that hold programs all have a region signature
