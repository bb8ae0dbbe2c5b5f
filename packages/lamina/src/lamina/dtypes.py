"""`lamina.dtypes`: element types, from `lamina_ir.dtypes`."""
from lamina_ir.dtypes import bfloat16, canonicalize_dtype, finfo, float0, iinfo, issubdtype

__all__ = ["bfloat16", "canonicalize_dtype", "finfo", "float0", "iinfo", "issubdtype"]
