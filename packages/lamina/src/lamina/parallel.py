"""`lamina.parallel`: maps over devices beside `pmap`, from `lamina_parallel`."""
from lamina_parallel import padded

__all__ = ["padded"]
