"""Samples of linear_solve: a diagonal system, solved by division."""
from ... import prims
from ..._text.parser import parse
from ..sampling import away, floats, sample

_SYSTEM = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = mul a b in (c,) }")
_SOLVE, _TRANSPOSED = [parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = div b a in (c,) }") for _ in range(2)]

sample(prims.linear_solve_p, away(3), floats(3), matvec=_SYSTEM, num_aux=0, num_consts=1, solve=_SOLVE,
       transpose_solve=_TRANSPOSED)
