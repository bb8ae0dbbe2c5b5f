"""`lamina.dtypes`: element types, from `lamina_ir.dtypes`, and the types that values meet in."""
from lamina_ir import result_type, scalar_type_of
from lamina_ir.dtypes import bfloat16, canonicalize_dtype, finfo, float0, iinfo, issubdtype

__all__ = ["bfloat16", "canonicalize_dtype", "finfo", "float0", "iinfo", "issubdtype", "result_type", "scalar_type_of"]
