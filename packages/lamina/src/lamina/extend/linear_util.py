"""`lamina.extend.linear_util`: functions with transformations around them, from `lamina_tracing.wrapped_functions`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_tracing.wrapped_functions import *
from lamina_tracing.wrapped_functions import __all__ as __all__
