"""Multiply irreducible representations; spherical harmonics are equivariant under rotations."""
import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
from _report import show

x = e3nn.normal("2x0e + 1x1o", jax.random.PRNGKey(0), ())
product = e3nn.tensor_product(x, x)
vectors = jax.random.normal(jax.random.PRNGKey(1), (3, 3))
harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", vectors, normalize=True)
rotation = e3nn.rand_matrix(jax.random.PRNGKey(2), ())
turned = e3nn.spherical_harmonics("2e", vectors @ rotation.T, normalize=True)
same = e3nn.spherical_harmonics("2e", vectors, normalize=True).transform_by_matrix(rotation)
derivative = jax.jit(jax.grad(lambda v: e3nn.norm(e3nn.spherical_harmonics("1o", v, normalize=False)).array.sum()))(vectors)
show(product=product.array, size=product.irreps.dim, harmonics=harmonics.array,
     error=jnp.abs(turned.array - same.array).max() < 1e-4,
     derivative=derivative)
