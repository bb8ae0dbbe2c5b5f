"""Longer procedures along an axis: padding, differences, convolution, polynomials, functions of functions."""
