"""Third-party extensions of lamina through its extension API: primitives, a transformation, another target."""
from .bounds import Interval, bounds, bounds_rules, increasing
from .numpy_text import numpy_text, numpy_text_rules
from .repeat import repeat, repeat_p
from .softsign import softsign, softsign_p

__all__ = ["Interval", "bounds", "bounds_rules", "increasing", "numpy_text", "numpy_text_rules", "repeat", "repeat_p",
           "softsign", "softsign_p"]
