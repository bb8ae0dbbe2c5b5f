"""Specs of the primitives that slide a window over an array."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Along an axis of n elements, with base dilation b, padding (low, high), and a window of k elements with dilation w and stride
s: there are L = (n - 1) b + 1 + low + high positions (low + high, if n = 0), and element i is at position low + i b. Window p
has the positions p s + j w for j = 0, ..., k - 1. There are (L - M) // s + 1 windows, where M = (k - 1) w + 1, and none if L
< M or L <= 0. A position without an element (in gaps, in padding) is ignored. Windows extend over all axes at once; their
elements are in row-major order. Floats of 16 bits and fewer are combined in f32 and rounded once.
"""

SPECS = [
    op("reduce_window_max", "x", "the dtype of x; along each axis the number of windows",
       "Of floats, integers, bool: the largest element of each window; of an empty one the lowest value of the dtype."),
    op("reduce_window_min", "x", "the dtype of x; along each axis the number of windows",
       "Of floats, integers, bool: the smallest element of each window; of an empty one the highest value of the dtype."),
    op("reduce_window", "x... init...", "as many arrays as there are x: its dtype, along each axis the number of windows",
       """As `reduce`, over the elements of each window: state = init; for each element in row-major order state =
       computation(state..., elements...).""",
       computation="a program of states and elements, all of rank 0, that returns new states"),
    op("reduce_window_prod", "x", "the dtype of x; along each axis the number of windows",
       "Of numbers: the product of each window; of an empty one 1."),
    op("reduce_window_sum", "x", "the dtype of x; along each axis the number of windows",
       "Of numbers: the sum of each window; of an empty one 0."),
    op("select_and_gather_add", "t x", "the dtype of t; along each axis the number of windows",
       """t and x have one shape. For each window: the element of t at the position where x has its selected element. An
       element that is the lowest value of the dtype ('le': the highest) is selected only if the window has no other: then
       the first. 0 for a window without elements."""),
    op("select_and_scatter_add", "source x", "the dtype of source; the shape of x",
       """source has one element for each window of x, without dilations. y is 0, and each element of source is added at the
       position of the selected element of its window; that of a window without elements is ignored."""),
]
