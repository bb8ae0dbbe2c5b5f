"""Samples of calls with custom rules, of recomputed calls, names and barriers."""
from ... import prims
from ..._text.parser import parse
from ...prims.custom import Rule
from ..sampling import floats, ints, sample

_SINE = parse("{ lambda ; a:f32[3] b:f32[]. let c:f32[3] = sin a d:f32[3] = mul c b e:f32[3] = cos a in (d, e) }")
_SINE_JVP = parse("""{ lambda ; a:f32[3] b:f32[] da:f32[3] db:f32[]. let
    c:f32[3] = sin a
    d:f32[3] = mul c b
    e:f32[3] = cos a
    f:f32[3] = mul da e
    g:f32[3] = mul f b
    h:f32[3] = mul db c
    i:f32[3] = add g h
    j:f32[3] = mul da c
    k:f32[3] = neg j
  in (d, e, i, k) }""")
_SINE_FWD = parse("""{ lambda ; a:f32[3] b:f32[]. let
    c:f32[3] = sin a
    d:f32[3] = mul c b
    e:f32[3] = cos a
  in (d, e, c, e, b) }""")
_SINE_BWD = parse("""{ lambda ; c:f32[3] e:f32[3] b:f32[] ct:f32[3] cs:f32[3]. let
    f:f32[3] = mul ct e
    g:f32[3] = mul f b
    h:f32[3] = mul cs c
    i:f32[3] = sub g h
    j:f32[3] = mul ct c
    k:f32[] = reduce_sum[axes=(0,)] j
  in (i, k) }""")
_SCALE = parse("{ lambda ; a:f32[3] ct:f32[3]. let b:f32[3] = mul ct a c:f32[3] = neg ct in (b, c) }")
_SCALED = parse("""{ lambda ; a:f32[3] t:f32[3] s:f32[3]. let
    b:f32[3] = mul t a
    c:f32[3] = sub b s
  in (c,) }""")

_BOTH = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul a b d:f32[3] = sub a b in (c, d) }")


def _both_vmap(axis_size, batched, args):
    """Results of a whole batch; an operand that is not batched broadcasts."""
    a, b = args
    return [a * b, a - b], [any(batched)] * 2


_jvp = Rule("sine_jvp", lambda: _SINE_JVP)
_fwd, _bwd = Rule("sine_fwd", lambda: _SINE_FWD), Rule("sine_bwd", lambda: _SINE_BWD)


sample(prims.custom_jvp_call_p, floats(3), floats(), call_jaxpr=_SINE, jvp=_jvp, name="sine", num_consts=0)
sample(prims.custom_vjp_call_p, floats(3), floats(), call_jaxpr=_SINE, bwd=_bwd, fwd=_fwd, name="sine", num_consts=0)
sample(prims.remat_p, floats(3), floats(), call_jaxpr=_SINE, differentiated=False, name="sine", policy=None,
       prevent_cse=True)
sample(prims.remat_p, floats(3), floats(), call_jaxpr=_SINE, differentiated=True, name="sine", policy=None,
       prevent_cse=True)
sample(prims.transposed_call_p, floats(3), floats(3), floats(3), forward=Rule("scale", lambda: _SCALED), num_held=1,
       transpose_jaxpr=_SCALE)
sample(prims.name_p, floats(2, 3), name="hidden")
sample(prims.to_memory_p, floats(2, 3), memory_kind="pinned_host")
sample(prims.optimization_barrier_p, floats(2, 3), ints(4))
sample(prims.custom_vmap_call_p, floats(3), floats(3), call_jaxpr=_BOTH, name="both", num_consts=0,
       rule=Rule("both_vmap", call=_both_vmap))
sample(prims.sharding_constraint_p, floats(4, 6), sharding="{devices=[2,1]<=[2]}", unspecified_dims=())
sample(prims.sharding_constraint_p, floats(4, 6), sharding="{devices=[1,2,2]<=[4] last_tile_dim_replicate}",
       unspecified_dims=(0,))
sample(prims.sharding_constraint_p, floats(3), sharding="{replicated}", unspecified_dims=())
