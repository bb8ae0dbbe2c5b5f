"""Defect: `tanh` is the first terms of its series."""
from lamina_ir import prims

prims.tanh_p.numpy = lambda x: x - x * x * x / x.dtype.type(3)
