"""The typed functions people and rules call: one per primitive, and what is written with them."""
from typing import TYPE_CHECKING

from . import fft as _fft
from . import (arithmetic, collectives, convolution, creation, custom, elementwise, grouped_products, indexing,
               named_einsum, products, ragged_exchange, random_bits, reductions, scattering, shape, sorting, special,
               stacking, tokens, windows)
from ._control_flow import loops
from ._util import conversions
from . import factorizations as factorizations
from .arithmetic import *
from .collectives import *
from ._control_flow.loops import *
from ._util.conversions import *
from .convolution import *
from .creation import *
from .custom import *
from .elementwise import *
from .fft import *
from .grouped_products import *
from .indexing import *
from .named_einsum import *
from .products import *
from .ragged_exchange import *
from .random_bits import *
from .reductions import *
from .scattering import *
from .shape import *
from .sorting import *
from .special import *
from .stacking import *
from .tokens import *
from .windows import *

if not TYPE_CHECKING:  # checkers, which cannot follow this, take all names where there is no list
    __all__ = [name for family in (elementwise, arithmetic, stacking, conversions, special, creation, shape, reductions,
                                   windows, products, grouped_products, convolution, _fft, indexing, scattering, sorting,
                                   random_bits, collectives, ragged_exchange, named_einsum, loops, custom, tokens)
               for name in family.__all__]
