"""Samples of control flow: branches, a loop with a condition, loops over stacked values forwards and backwards."""
import numpy as np

from ... import prims
from ..._text.parser import parse
from ..sampling import floats, positives, sample

_SIN = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = mul c b in (d, a) }")
_MUL = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul b 2.0:f32[] in (c, b) }")
_ADD = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = add a b in (c, c) }")
for _index in (0, 1, 2, 7):
    sample(prims.cond_p, np.int32(_index), floats(3), floats(3), branches=(_SIN, _MUL, _ADD))

_FEW = parse("{ lambda ; a:i32[] b:f32[3]. let c:bool[] = lt a 4:i32[] in (c,) }")
_GROW = parse("""{ lambda ; w:f32[3] a:i32[] b:f32[3]. let
    c:i32[] = add a 1:i32[]
    d:f32[3] = mul b w
    e:f32[3] = sin d
  in (c, e) }""")
for _max in (None, 2, 9):
    sample(prims.while_p, floats(3), np.int32(0), floats(3), cond_jaxpr=_FEW, cond_nconsts=0, body_jaxpr=_GROW,
           body_nconsts=1, max_iters=_max)

_STEP = parse("""{ lambda ; w:f32[3] a:f32[3] x:f32[] i:i32[]. let
    b:f32[3] = cos w
    c:f32[3] = mul a b
    d:f32[3] = add c x
    e:f32[3] = sin d
    f:f32[] = reduce_sum[axes=(0,)] c
    g:i32[] = add i 1:i32[]
  in (e, f, g) }""")
for _reverse, _unroll in ((False, 1), (True, 1), (False, 2), (True, 3), (False, 5)):
    sample(prims.scan_p, positives(3), floats(3), floats(5), np.arange(5, dtype=np.int32), jaxpr=_STEP, length=5,
           num_carry=1, num_consts=1, reverse=_reverse, unroll=_unroll)
sample(prims.scan_p, positives(3), floats(3), floats(0), np.zeros(0, np.int32), jaxpr=_STEP, length=0, num_carry=1,
       num_consts=1, reverse=False, unroll=1)

sample(prims.platform_index_p, has_default=True, platforms=(("cpu",),))
sample(prims.platform_index_p, has_default=False, platforms=(("cuda", "rocm"), ("tpu", "cpu")))
sample(prims.platform_index_p, has_default=True, platforms=(("tpu",), ("cuda",)))
