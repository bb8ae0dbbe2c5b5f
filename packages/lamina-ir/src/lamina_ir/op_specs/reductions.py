"""Specs of reductions and cumulative operations."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The elements along the axes are combined, for each index along the others. Floats of 16 bits and fewer are combined in f32 and
rounded once, integers modulo 2 to the number of their bits. Maxima and minima: NaN if there is one; complex numbers are
ordered by real, then imaginary part; of no elements the lowest or the highest value of the dtype (infinite if it has one).
"""

SPECS = [
    op("argmax", "x", "dtype `index_dtype`; the shape of x without the axis",
       "The index of the largest element, of NaN if there is one; the lowest of equals.", axes="one axis",
       index_dtype="an integer dtype"),
    op("argmin", "x", "dtype `index_dtype`; the shape of x without the axis",
       "The index of the smallest element, of NaN if there is one; the lowest of equals.", axes="one axis",
       index_dtype="an integer dtype"),
    op("cummax", "x", "like x", "y[k] is the largest of x[0], ..., x[k] along `axis`.",
       reverse="whether it goes from the end to the front"),
    op("cummin", "x", "like x", "y[k] is the smallest of x[0], ..., x[k] along `axis`.",
       reverse="whether it goes from the end to the front"),
    op("cumprod", "x", "like x", "y[k] is the product of x[0], ..., x[k] along `axis`.",
       reverse="whether it goes from the end to the front"),
    op("cumsum", "x", "like x", "y[k] is the sum of x[0], ..., x[k] along `axis`.",
       reverse="whether it goes from the end to the front"),
    op("reduce_and", "x", "the dtype of x; its shape without `axes`",
       "Of integers and bool: bitwise and; of no elements all bits are 1."),
    op("reduce_max", "x", "the dtype of x; its shape without `axes`", "Of any dtype: the largest."),
    op("reduce_min", "x", "the dtype of x; its shape without `axes`", "Of any dtype: the smallest."),
    op("reduce_or", "x", "the dtype of x; its shape without `axes`",
       "Of integers and bool: bitwise or; of no elements 0."),
    op("reduce", "x... init...", "as many arrays as there are x; each of its dtype, of the shape without `dimensions`",
       """The first half of the operands are arrays of one shape, the second half an initial value of rank 0 for each, of its
       dtype. For each index of the result: state = init; for each element along `dimensions`, in row-major order, state =
       computation(state..., elements...). The order is free if `computation` is associative and commutative and init
       is neutral.""", computation="a program of states and elements, all of rank 0, that returns new states",
       dimensions="the axes"),
    op("reduce_prod", "x", "the dtype of x; its shape without `axes`", "Of numbers: the product; of no elements 1."),
    op("reduce_sum", "x", "the dtype of x; its shape without `axes`", "Of numbers: the sum; of no elements 0."),
    op("reduce_xor", "x", "the dtype of x; its shape without `axes`",
       "Of integers and bool: bitwise exclusive or; of no elements 0."),
]
