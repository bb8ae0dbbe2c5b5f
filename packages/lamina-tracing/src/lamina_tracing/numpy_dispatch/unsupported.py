"""Functions of NumPy's that traced values do not have here: name -> what to write instead."""
from __future__ import annotations

__all__ = ["CHANGES", "METHODS", "NUMBERS_ONLY", "REFUSED"]

# They write into an argument, or into a file: no room above does that otherwise.
_INSTEAD = "it would change an array in place; give a new one, with numpy.where or numpy.concatenate, or x.at[i].set(v)"
_FILES = "a file needs numbers; save what the function returns"
CHANGES = {**dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), _INSTEAD),
           **dict.fromkeys(("save", "savetxt", "savez", "savez_compressed"), _FILES)}

METHODS = {"at": "it would change an array in place; x.at[i].add(v) gives a new one",
           "reduceat": "sums of parts are lax.cumsum and differences of it, or a sum of each part by itself",
           "reduce": "numpy has this reduction under a name of its own, or fold it with lax.reduce",
           "accumulate": "lax.associative_scan(f, x) accumulates by any function"}

# What they give depends on the numbers, and has no derivative: done with the numbers where these are known.
_KNOWN = "the shape of its result depends on numbers that are not known while the function is traced; "
_MASK = _KNOWN + "keep the shape, and choose with numpy.where(condition, x, y)"
NUMBERS_ONLY = {
    **dict.fromkeys(("argwhere", "flatnonzero", "nonzero"), _MASK),
    **dict.fromkeys(("unique_counts", "unique_inverse"), _KNOWN + "sort the elements and compare neighbours"),
    "bincount": _KNOWN + "sum numpy.equal(x[:, None], numpy.arange(n)) over the first axis",
    "histogram": _KNOWN + "count with numpy.searchsorted and fixed edges",
    "histogram2d": _KNOWN + "count with numpy.searchsorted and fixed edges",
    "histogramdd": _KNOWN + "count with numpy.searchsorted and fixed edges",
    "histogram_bin_edges": "edges depend on numbers that are not known while the function is traced; use numpy.linspace",
    "min_scalar_type": "it asks for the numbers; use x.dtype",
    **dict.fromkeys(("frexp", "gcd", "lcm"), "it is for numbers that are known; lamina_numpy has it for traced ones"),
    **dict.fromkeys(("packbits", "unpackbits"), "it is for numbers that are known; lamina_numpy has it for traced ones"),
    **dict.fromkeys(("ravel_multi_index", "unravel_index"), "use `//` and `%` with the shape"),
    **dict.fromkeys(("diag_indices_from", "tril_indices_from", "triu_indices_from"),
                    "only the shape counts: numpy.diag_indices, tril_indices, triu_indices of x.shape"),
    "ix_": "use x[i][:, j]",
    **dict.fromkeys(("may_share_memory", "shares_memory"), "a traced value has no memory"),
}

_WITH_NUMPY = "import lamina_numpy, which has it for traced values"
_SETS = _KNOWN + "sort the elements and compare neighbours"
_OBJECTS = "it is for text and dates, not for numbers"
_POLYNOMIALS = "write it with numpy.polyval, numpy.vander and numpy.linalg"
REFUSED = {
    **dict.fromkeys(("intersect1d", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_values"), _SETS),
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "datetime_as_string", "isnat"), _OBJECTS),
    **dict.fromkeys(("poly", "polydiv", "polyfit", "polyint", "roots"), _POLYNOMIALS),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes", "piecewise"), "map it with vmap, or choose with numpy.where and "
                    "numpy.select; " + _WITH_NUMPY),
    **dict.fromkeys(("nanmedian", "nanpercentile", "nanquantile"),
                    "the number of elements differs from row to row; " + _WITH_NUMPY),
    "trim_zeros": _KNOWN + "cut by known positions, x[i:j]",
    "sort_complex": "sort real and imaginary parts with numpy.lexsort",
    "real_if_close": "the dtype of its result depends on the numbers; use numpy.real",
    "spacing": "use numpy.nextafter(x, numpy.inf) - x",
    "einsum_path": "it needs shapes only: give it arrays of these shapes, numpy.empty(x.shape)",
}
