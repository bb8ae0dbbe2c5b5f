"""lamina: composable transformations of NumPy-like programs, for one device or many. Names only; each is its home room's.

>>> import lamina
>>> lamina.grad(lamina.numpy.tanh)(0.2)
Array(0.961043, dtype=float32, weak_type=True)
"""
# The runtime comes first: it fills the slots that what follows is dispatched through.
import lamina_runtime as _runtime
from lamina_autodiff import grad, hessian, jacfwd, jacrev, jvp, linear_transpose, linearize, value_and_grad, vjp
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct, config
from lamina_ir.trees import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from lamina_parallel import pmap
from lamina_runtime import (block_until_ready, clear_caches, default_backend, device_count, device_get, device_put,
                            device_put_replicated, device_put_sharded, devices, host_count, host_id, host_ids,
                            live_arrays, local_device_count, local_devices, process_count, process_index,
                            process_indices)
from lamina_tracing import Array, disable_jit, eval_shape, jit, make_jaxpr, named_call, named_scope

from . import dtypes, flatten_util, lax, numpy, random, tree_util
from ._version import __version__

float0 = dtypes.float0

__all__ = ["Array", "ShapeDtypeStruct", "__version__", "block_until_ready", "clear_caches", "config",
           "default_backend", "device_count", "device_get", "device_put", "device_put_replicated",
           "device_put_sharded", "devices", "disable_jit", "dtypes", "eval_shape", "flatten_util", "float0", "grad",
           "hessian", "host_count", "host_id", "host_ids", "jacfwd", "jacrev", "jit", "jvp", "lax",
           "linear_transpose", "linearize", "live_arrays", "local_device_count", "local_devices", "make_jaxpr",
           "named_call", "named_scope", "numpy", "pmap", "process_count", "process_index", "process_indices", "random",
           "tree_flatten", "tree_leaves", "tree_map", "tree_structure", "tree_unflatten", "tree_util",
           "value_and_grad", "vjp", "vmap"]

del _runtime
