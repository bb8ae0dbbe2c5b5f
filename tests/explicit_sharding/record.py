"""Record the types and refusals of JAX for `cases.py`.

Run it in an environment with jax 0.12: `XLA_FLAGS=--xla_force_host_platform_device_count=8 python record.py`. It writes
`recorded.json`: for each case the types of the results, or null if the call is refused.
"""
import json
from pathlib import Path

import jax
import numpy as np
from cases import run_all


def outcome(f, *args):
    try:
        return [str(jax.typeof(leaf)).lstrip("~") for leaf in jax.tree.leaves(f(*args))]
    except (TypeError, ValueError, jax.errors.ShardingTypeError if hasattr(jax.errors, "ShardingTypeError") else Exception):
        return None


if __name__ == "__main__":
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    with jax.set_mesh(mesh):
        found = run_all(jax, lambda shape, spec: jax.device_put(
            np.arange(np.prod(shape), dtype=np.float32).reshape(shape), jax.sharding.PartitionSpec(*spec)), outcome)
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items()))
    Path(__file__).with_name("recorded.json").write_text(f"{{\n{lines}\n}}\n")
