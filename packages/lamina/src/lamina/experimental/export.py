"""`lamina.experimental.export`: the older place of `lamina.export`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_export import *
from lamina_export import __all__ as __all__
