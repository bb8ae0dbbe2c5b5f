"""The lowering table, and one overlay per platform: a row there wins over the common row on that platform alone."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import Primitive, RuleTable

__all__ = ["PlatformTable", "lowering_rules", "platform_rules", "rows", "table_version"]

lowering_rules = RuleTable("lowering", "lamina_lowering/rules")


class PlatformTable(RuleTable):
    """Rows for one platform; an op without one uses the common row."""

    def __missing__(self, op: Primitive) -> Callable[..., Any]:
        if op in self.holes:
            return super().__missing__(op)
        return lowering_rules[op]


_platforms: dict[str, PlatformTable] = {}


def platform_rules(platform: str) -> PlatformTable:
    """The overlay of one platform (`cpu`, `cuda`, `rocm`, `tpu`): `platform_rules("cuda").define(op, rule)`."""
    table = _platforms.get(platform)
    if table is None:
        table = _platforms[platform] = PlatformTable(f"lowering for {platform}", f"lamina_lowering/rules/{platform}")
    return table


class _Rows(dict[Primitive, Callable[..., Any]]):
    """Common rows and one platform's, merged; a miss raises what the tables say."""

    def __init__(self, platform: str) -> None:
        overlay = platform_rules(platform)
        super().__init__(lowering_rules)
        for op in overlay.holes:
            self.pop(op, None)
        self.update(overlay)
        self.overlay = overlay

    def __missing__(self, op: Primitive) -> Callable[..., Any]:
        return self.overlay[op]


_merged: dict[str, tuple[tuple[int, int], _Rows]] = {}


def rows(platform: str) -> dict[Primitive, Callable[..., Any]]:
    """The rows in force on a platform, as one dict."""
    version = table_version(platform)
    known = _merged.get(platform)
    if known is None or known[0] != version:
        known = _merged[platform] = version, _Rows(platform)
    return known[1]


def table_version(platform: str) -> tuple[int, int]:
    """Changes whenever a row that `platform` uses may have changed; part of cache keys."""
    return lowering_rules.version, platform_rules(platform).version
