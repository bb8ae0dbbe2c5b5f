"""Defect: out_specs that claim a replicated result are not checked."""
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def shard_map(fun, mesh=None, in_specs=None, out_specs=None, **options):
    return _default.shard_map(fun, mesh, in_specs, out_specs, **{**options, "check_rep": False})
