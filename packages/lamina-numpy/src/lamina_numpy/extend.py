"""What the rooms of the wing above write their functions with: how one becomes public, and how arguments are read.

`public` marks a plain function for publishing and `publish` shows its jitted twin; `to_inexact` makes floats of integers and
booleans; `alike` gives several arrays one dtype and shape; `work_dtype` says in which dtype numbers are summed; `axes_of` reads
axes, names of mapped ones among them, and `fitted` masks; the steps of a function marked `own_terms` may promote what a user
has forbidden to be promoted.
"""
from ._core.named_axes import axes_of
from ._core.promotion import alike, own_terms, to_inexact, work_dtype
from ._core.public_api import public, publish
from ._reductions.reductions import fitted

__all__ = ["alike", "axes_of", "fitted", "own_terms", "public", "publish", "to_inexact", "work_dtype"]
