"""`lamina.custom_transpose`: linear functions that are told their transposes, from `lamina_autodiff`."""
from lamina_autodiff import custom_transpose

__all__ = ["custom_transpose"]
