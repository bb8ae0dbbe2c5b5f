"""Samples of calls: a jitted function of two operands, and a mapped one."""
from ... import prims
from ..._text.parser import parse
from ..sampling import floats, sample

_AFFINE = parse("""{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] = mul a b
    d:f32[3] = add c 1.0:f32[]
    e:f32[3] = sin a
  in (d, e) }""")

sample(prims.xla_call_p, floats(3), floats(3), call_jaxpr=_AFFINE, name="affine", donated_invars=(), inline=False,
       device=None, backend=None)
sample(prims.xla_pmap_p, floats(1, 3), floats(3), axis_name="i", axis_size=1, backend=None, call_jaxpr=_AFFINE,
       devices=None, donated_invars=(False, False), global_arg_shapes=(None, None), global_axis_size=None,
       in_axes=(0, None), name="affine", out_axes=(0, 1))
