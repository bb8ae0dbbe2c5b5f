"""`lamina.extend`: for programs that read programs, and for those who add to lamina."""
from . import core

__all__ = ["core"]
