"""Solve an ODE adaptively and differentiate the solution; solve a stiff one with an implicit method."""
import diffrax
import jax
import jax.numpy as jnp
from _report import run_steps, show


def solve(theta, adjoint):
    def field(t, y, args):
        return jnp.array([y[1], -args * jnp.sin(y[0])])
    return diffrax.diffeqsolve(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 5.0, 0.05, jnp.array([1.0, 0.0]), args=theta,
                               saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 5.0, 5)), adjoint=adjoint,
                               stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6))


solution = solve(2.0, diffrax.RecursiveCheckpointAdjoint())
gradient = jax.jit(jax.grad(lambda theta: solve(theta, diffrax.RecursiveCheckpointAdjoint()).ys[-1, 0]))
derivative = run_steps(lambda _: gradient(2.0), None, 3)
backsolve = jax.grad(lambda theta: solve(theta, diffrax.BacksolveAdjoint()).ys[-1, 0])(2.0)
stiff = diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, k: -k * (y - jnp.cos(t))), diffrax.Kvaerno5(), 0.0, 2.0, 0.01,
                            jnp.array([0.0]), args=50.0, stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6))
show(ys=solution.ys, steps=solution.stats["num_steps"], derivative=derivative, backsolve=jnp.round(backsolve, 2),
     stiff=stiff.ys)
