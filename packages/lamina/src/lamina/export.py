"""`lamina.export`: functions traced once, as files that run without their Python code, from `lamina_export`."""
from lamina_export import *
from lamina_export import __all__ as __all__
