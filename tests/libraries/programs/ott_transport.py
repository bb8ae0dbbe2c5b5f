"""Solve optimal transport between point clouds, with its gradient."""
import jax
from _report import show
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn

x = jax.random.normal(jax.random.PRNGKey(0), (8, 2))
y = jax.random.normal(jax.random.PRNGKey(1), (6, 2)) + 1.0


@jax.jit
def cost(x):
    problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5))
    out = sinkhorn.Sinkhorn(max_iterations=200)(problem)
    return out.reg_ot_cost, out.matrix


value, matrix = cost(x)
show(value=value, matrix=matrix.sum(1), grad=jax.grad(lambda x: cost(x)[0])(x))
