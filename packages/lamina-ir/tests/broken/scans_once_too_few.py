"""Defect: the last iteration of a `while` loop is skipped."""
from lamina_ir import prims

_while = prims.while_p.numpy


def _short(run, *args, max_iters, **params):
    iterations = 0

    def counted(program, values):
        nonlocal iterations
        iterations += program is params["body_jaxpr"]
        return run(program, values)

    out = _while(counted, *args, max_iters=max_iters, **params)
    return _while(run, *args, max_iters=iterations - 1, **params) if iterations else out


prims.while_p.numpy = _short
