"""`lamina.dtypes`: element types, from `lamina_ir.dtypes`."""
from lamina_ir.dtypes import bfloat16, finfo, float0, iinfo, issubdtype
from lamina_ir.dtypes import canonical as canonicalize_dtype

__all__ = ["bfloat16", "canonicalize_dtype", "finfo", "float0", "iinfo", "issubdtype"]
