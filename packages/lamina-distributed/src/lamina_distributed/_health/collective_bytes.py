"""Count the bytes that the collectives of a compiled program produce in each launch, from its optimized HLO."""
from __future__ import annotations

import math
import re
from collections import Counter

__all__ = ["count_bytes"]

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")
_COLLECTIVE = re.compile(r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
                         r"|ragged-all-to-all)(-start)?\(")
_SHAPE = re.compile(r"([a-z]+\d*\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:to_apply|calls|body|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_BITS = re.compile(r"[a-z]+(\d+)")


def _shape_bytes(text: str) -> int:
    """Return the bytes of the arrays in the text of a type, such as `(f32[2,3]{1,0}, pred[])`."""
    total = 0
    for dtype, sizes in _SHAPE.findall(text):
        bits = _BITS.match(dtype)  # pred and token have no number
        total += math.prod([int(n) for n in sizes.split(",") if n]) * (int(bits[1]) if bits else 8)
    return total // 8


def count_bytes(hlo: str) -> dict[str, int]:
    """Return collective -> bytes of its results in one device, per launch.

    A loop counts as often as it runs, if the compiler knows that number, else once. All branches of a conditional count.
    """
    own: dict[str, Counter[str]] = {}
    calls: dict[str, list[tuple[str, int]]] = {}
    entry = name = ""
    for line in hlo.splitlines():
        if not line.startswith(" "):
            if found := _COMPUTATION.match(line):
                name = found[2]
                own[name], calls[name] = Counter(), []
                entry = name if found[1] else entry
            continue
        if name and (found := _COLLECTIVE.search(line)):
            own[name][found[2]] += _shape_bytes(found[1])
        if name and "=" in line:
            trips = _TRIPS.search(line)
            called = _CALLED.findall(line)
            for branches in _BRANCHES.findall(line):
                called += [b.strip().lstrip("%") for b in branches.split(",")]
            calls[name] += [(c, int(trips[1]) if trips else 1) for c in called]
    totals: dict[str, Counter[str]] = {}
    for computation in own:  # the text has called computations before those that call them
        totals[computation] = Counter(own[computation])
        for called_name, times in calls[computation]:
            for collective, size in totals.get(called_name, Counter()).items():
                totals[computation][collective] += times * size
    return dict(totals.get(entry, Counter()))
