"""Spec of `conv_general_dilated`."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
With batch, features and spatial axes in their places: lhs[n, c, ...], rhs[o, c, ...], y[n, o, ...], and one spatial axis
written for all:

`y[n, o, p] = sum over c, k of lhs[n, c, (p stride + k rhs_dilation - low) / lhs_dilation] rhs[o, c, k]`

over those k for which the position is an integer and inside lhs. The number of p is that of the windows (see windows: base
dilation `lhs_dilation`, window dilation `rhs_dilation`). Floats are accumulated in f32 at least.
"""

SPECS = [
    op("conv_general_dilated", "lhs rhs", "dtype `preferred_element_type`, or the operands'",
       """With G = feature_group_count > 1: the features of lhs and the output features of rhs are divided into G contiguous
       groups; output group g depends on the features of group g of lhs only (rhs has as many input features as a group).
       With G = batch_group_count > 1: the batch of lhs and the output features of rhs are divided into G groups; output
       group g depends on the examples of group g, so the batch of the result is G times smaller.""",
       batch_group_count="see above; 1 or more", feature_group_count="see above; 1 or more; one of the two is 1",
       dimension_numbers="""`ConvDimensionNumbers`: the axes of lhs (batch, feature, spatial...), of rhs (output feature,
       input feature, spatial...), of the result (batch, feature, spatial...)""",
       lhs_dilation="per spatial axis: the distance of the elements of lhs in positions",
       padding="per spatial axis (low, high)",
       rhs_dilation="per spatial axis: the distance of the elements of rhs in positions",
       window_strides="per spatial axis: the distance between the starts of windows in positions"),
]
