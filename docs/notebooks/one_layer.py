# %% [markdown]
# # A layer used alone
#
# lamina is a set of packages in layers. You can use one without those above. This notebook uses `lamina-autodiff` and
# `lamina-ir` only: derivatives of NumPy code, with no compiler in the process.
#
# It presumes chapter 2 of the course. `pip install lamina-autodiff` installs some 20 MB.

# %%
import sys

import numpy as np
from lamina_autodiff import grad, jacfwd
from lamina_ir import config

assert "jaxlib" not in sys.modules

# %% [markdown]
# ## A derivative of NumPy code
#
# The model is a NumPy function: a decay with an amplitude and a rate.

# %%
t = np.linspace(0, 4, 30)


def model(p):
    return p[0] * np.exp(-p[1] * t)


with config.enable_x64(True):
    jacobian = jacfwd(model)(np.array([3.0, 0.5]))
jacobian.shape, jacobian.dtype

# %% [markdown]
# `jacfwd` called `model` with objects that record derivatives. NumPy's functions accept them, so nothing was rewritten.
#
# ## Fit a curve
#
# Gauss and Newton's method needs the Jacobian. Each iteration solves a linear problem, which is NumPy's work.

# %%
measured = model(np.array([2.5, 0.8])) + 0.05 * np.sin(37 * t)
p = np.array([1.0, 0.1])
with config.enable_x64(True):
    for _ in range(10):
        residual = measured - model(p)
        move, *_ = np.linalg.lstsq(np.asarray(jacfwd(model)(p)), residual)
        p = p + move
assert np.allclose(p, [2.5, 0.8], atol=0.1)
p.round(2)

# %%
from IPython.display import SVG

sys.path.append("../learn")
import pictures

fitted, dots = {"model": (t, model(p))}, {"measured": (t, measured)}
SVG(pictures.line_chart("A fitted decay", fitted, dots, x_label="time"))

# %% [markdown]
# ## A gradient as a program
#
# The layers below can show and count programs. This is the gradient of a loss, recorded but not run:

# %%
from lamina_ir import program_cost
from lamina_tracing import make_jaxpr


def loss(p):
    return np.sum((model(p) - measured.astype(np.float32)) ** 2)


t = t.astype(np.float32)
program = make_jaxpr(grad(loss))(np.float32([1.0, 0.1]))
program

# %%
program_cost(program)

# %% [markdown]
# Still no compiler was loaded. If `lamina` is imported in the same process, XLA runs the same functions.

# %%
"jaxlib" in sys.modules
