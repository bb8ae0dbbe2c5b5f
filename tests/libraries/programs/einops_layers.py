"""Rearrange, reduce, repeat and contract arrays, inside jit and grad."""
import jax
import jax.numpy as jnp
from _report import show
from einops import einsum, pack, rearrange, reduce, repeat, unpack

x = jnp.arange(48.0).reshape(2, 4, 6)


@jax.jit
def run(x):
    patches = rearrange(x, "b (h p) (w q) -> b (h w) (p q)", p=2, q=3)
    pooled = reduce(x, "b (h 2) w -> b h", "max")
    wide = repeat(pooled, "b h -> b (h copy)", copy=2)
    scores = einsum(patches, patches, "b i d, b j d -> b i j")
    return patches, pooled, wide, scores


patches, pooled, wide, scores = run(x)
packed, shapes = pack([x, x[:, 0]], "b *")
parts = unpack(packed, shapes, "b *")
show(patches=patches, pooled=pooled, wide=wide, scores=scores, parts=parts[1],
     grad=jax.grad(lambda x: (run(x)[3] ** 2).sum() * 1e-6)(x), mean=reduce(x, "b h w -> w", "mean"))
