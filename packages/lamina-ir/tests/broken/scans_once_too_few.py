"""The last turn of a `while` loop is not made."""
from lamina_ir import prims

_while = prims.while_p.numpy


def _short(run, *args, max_iters, **params):
    turns = 0

    def counted(program, values):
        nonlocal turns
        turns += program is params["body_jaxpr"]
        return run(program, values)

    out = _while(counted, *args, max_iters=max_iters, **params)
    return _while(run, *args, max_iters=turns - 1, **params) if turns else out


prims.while_p.numpy = _short
