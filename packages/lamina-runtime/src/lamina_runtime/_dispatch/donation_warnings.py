"""Warn about donated arguments whose memory a compiled program cannot reuse."""
from __future__ import annotations

import re
from collections.abc import Callable

from lamina_tracing.extend import warn_user

from .._execute.executable import CompiledProgram

__all__ = ["warn_unusable"]


def warn_unusable(program: CompiledProgram, format_arg: Callable[[int], str]) -> None:
    """Warn once per program, at its first call or when it is compiled, if it cannot reuse memory that is donated.

    `format_arg(i)` is the name of a flat argument. An argument that a launch copies because other threads may read it is
    not reported, nor one that the program does not use.
    """
    program.donation_checked = True
    lowered = program.lowered
    pairs: tuple[tuple[int, int | None], ...] = getattr(lowered, "donation", ())
    if all(k is not None for _, k in pairs):
        return
    # The compiler may write another result of the same size into the memory. It lists the arguments left over.
    header = program.executable.hlo_modules()[0].to_string().partition("\n")[0]
    unused = {int(n) for n in re.findall(r"\((\d+), \{", header.partition("buffer_donor=")[2].partition("=")[0])}
    positions = [i for i, is_used in enumerate(program.used_args) if is_used]
    left_over = [(i, positions[i - len(lowered.const_args)]) for i, k in pairs if k is None and i in unused]
    reports = [f"{format_arg(n)}, {program.in_avals[n].str_long()} ({_find_reason(program, i)})" for i, n in left_over]
    if reports:
        warn_user(f"{program.call} of `{program.name}`: the memory of donated arguments cannot be reused: "
                  f"{'; '.join(reports)}. Donate only arguments whose shape and dtype a result has")


def _find_reason(program: CompiledProgram, i: int) -> str:
    """Return why no result uses the memory of argument `i` of the module."""
    lowered = program.lowered
    aval = lowered.in_avals[i]
    same = {k for k, a in enumerate(program.out_avals) if (a.shape, a.dtype) == (aval.shape, aval.dtype)}
    if not same:
        return "no result has this shape and dtype"
    if same <= {k for _, k in lowered.donation}:
        return "the results of this shape and dtype use the memory of other arguments"
    return "the results of this shape and dtype are divided over the devices in another way"
