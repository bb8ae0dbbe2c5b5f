"""`lamina.dtypes`: element types, from `lamina_ir.dtypes`, and the types that values meet in."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir import result_type, scalar_type_of
from lamina_ir.dtypes import (TypePromotionError, bfloat16, canonicalize_dtype, extended, finfo, float0, iinfo,
                              issubdtype, itemsize_bits, prng_key)
from lamina_ir.layers import explain_absent_names as _explain_absent_names

__all__ = ["TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
           "itemsize_bits", "prng_key", "result_type", "scalar_type_of"]

_explain_absent_names(globals())
