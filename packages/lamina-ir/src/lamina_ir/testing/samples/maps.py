"""Samples of maps of several axes: the view of one member, with entries of each kind."""
from ... import prims
from ..._text.parser import parse
from ..sampling import floats, sample

_PRODUCT = parse("""{ lambda ; a:f32[3]{left} b:f32[3]{right}. let
    c:f32[3]{left,right} = mul a b
    d:f32[]{left,right} = reduce_sum[axes=(0,)] c
    e:f32[3]{left} = sin a
  in (d, e) }""")
_LEFT, _RIGHT = prims.Indexed(("left",)), prims.Indexed(("right",))

sample(prims.xmap_p, floats(2, 3), floats(3, 4), axis_resources=(), axis_sizes=(("left", 2), ("right", 4)), backend=None,
       call_jaxpr=_PRODUCT, donated_invars=(), here=(), in_axes=((_LEFT, None), (None, _RIGHT)), loops=(), mesh=None,
       name="product", out_axes=((_RIGHT, _LEFT), (None, _LEFT)))

_ROWS = parse("""{ lambda ; a:f32[2,3]{x} b:f32[3]. let
    c:f32[2,3]{x} = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)] b
    d:f32[2,3]{x} = mul a c
    e:f32[2,3]{x} = sin a
  in (d, e) }""")

sample(prims.shard_map_p, floats(2, 3), floats(3), auto=(), call_jaxpr=_ROWS, donated_invars=(), here=(),
       in_specs=((prims.Split(("x",)), None), (None,)), mesh=(("x",), (1,), (0,)), name="rows",
       out_specs=((prims.Split(("x",)), None), (None, prims.Split(("x",)))))
