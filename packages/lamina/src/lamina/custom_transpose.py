"""`lamina.custom_transpose`: linear functions with a custom transpose, from `lamina_autodiff`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_autodiff import custom_transpose

__all__ = ["custom_transpose"]
