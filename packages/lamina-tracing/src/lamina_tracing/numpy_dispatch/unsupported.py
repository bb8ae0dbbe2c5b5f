"""NumPy functions that traced values do not support: name -> what to write instead."""
from __future__ import annotations

__all__ = ["CHANGES", "METHODS", "NUMBERS_ONLY", "REFUSED"]

# They write to an argument or a file, so no package can implement them.
_INSTEAD = "it would change an array in place; give a new one, with numpy.where or numpy.concatenate, or x.at[i].set(v)"
_FILES = "a file needs numbers; save what the function returns"
CHANGES = {**dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), _INSTEAD),
           **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), _FILES)}

# Methods of ufuncs.
METHODS = {"at": "it would change an array in place; x.at[i].add(v) gives a new one"}

# Their results depend on the numbers and have no derivative. If all numbers are known, NumPy computes them.
_KNOWN = "the shape of its result depends on numbers that are not known while the function is traced; "
_MASK = _KNOWN + "keep the shape, and choose with numpy.where(condition, x, y)"
NUMBERS_ONLY = {
    **dict.fromkeys(("argwhere", "flatnonzero", "nonzero"), _MASK),
    **dict.fromkeys(("unique_counts", "unique_inverse"), _KNOWN + "sort the elements and compare adjacent ones"),
    "bincount": _KNOWN + "sum numpy.equal(x[:, None], numpy.arange(n)) over the first axis",
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"),
                    _KNOWN + "count with numpy.searchsorted and fixed edges"),
    "histogram_bin_edges": "the edges depend on numbers that are not known while the function is traced; use "
                           "numpy.linspace",
    "min_scalar_type": "it asks for the numbers; use x.dtype",
    **dict.fromkeys(("frexp", "gcd", "lcm", "packbits", "unpackbits"), ""),
    **dict.fromkeys(("ravel_multi_index", "unravel_index"), "use `//` and `%` with the shape"),
    **dict.fromkeys(("diag_indices_from", "tril_indices_from", "triu_indices_from"),
                    "only the shape counts: numpy.diag_indices, tril_indices, triu_indices of x.shape"),
    "ix_": "use x[i][:, j]",
    **dict.fromkeys(("may_share_memory", "shares_memory"), "a traced value has no memory"),
}

_SETS = _KNOWN + "sort the elements and compare adjacent ones"
_OBJECTS = "it is for text and dates, not for numbers"
REFUSED = {
    **dict.fromkeys(("intersect1d", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_values"),
                    _SETS),
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"), _OBJECTS),
    "trim_zeros": _KNOWN + "cut by known positions, x[i:j]",
    "real_if_close": "the dtype of its result depends on the numbers; use numpy.real",
    "einsum_path": "it needs shapes only: give it arrays of these shapes, numpy.empty(x.shape)",
}
