"""Lower the `xmap` equations of a program; a program without them costs one look at its facts."""
from __future__ import annotations

from collections.abc import Hashable

from lamina_ir import ClosedJaxpr
from lamina_ir.extend import collect_facts, stack_depth

__all__ = ["lower_xmaps"]


def lower_xmaps(closed: ClosedJaxpr, around: tuple[tuple[Hashable, int], ...] = ()) -> ClosedJaxpr:
    """Return an equivalent program without `xmap`.

    Args:
      closed: the program.
      around: (name, size) of the axes that are bound around it, outermost first.
    Returns:
      The new program, cached on `closed`; `closed` itself if it contains no xmap.

    >>> from lamina_ir import parse
    >>> body = "{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a in (b,) }"
    >>> call = f"xmap[ axis_sizes=(('i', 3),) call_jaxpr={body} in_axes=((Indexed(names=('i',)),),) name=f "
    >>> call += "out_axes=((Indexed(names=('i',)),),) ] a"
    >>> program = lower_xmaps(parse("{ lambda ; a:f32[3]. let b:f32[3] = %s in (b,) }" % call))
    >>> program.eqns[0].params["call_jaxpr"]
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    if not collect_facts(closed).has_xmap:
        return closed
    from .lower_xmap import lower_program  # noqa: PLC0415 (late: few programs contain an xmap)
    with stack_depth.with_recursion_limit():
        return lower_program(closed, around)
