"""`lamina.experimental.export`: the older place of `lamina.export`."""
from lamina_export import *
from lamina_export import __all__ as __all__
