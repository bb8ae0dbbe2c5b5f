"""The lowering rule table, and one overlay per platform: a rule of the overlay replaces the common rule on that
platform."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina_ir import Primitive, RuleTable
from lamina_ir.typing import Function
from typing_extensions import override

__all__ = ["MergedRules", "PlatformTable", "has_platform_rule", "lowering_rules", "merged_rules", "platform_rules"]

lowering_rules = RuleTable("lowering", "lamina_lowering/rules", leading_params=("ctx",))


class PlatformTable(RuleTable):
    """Rules for one platform; a primitive without one uses the common rule.

    Inside of `lowering_rules.override`, the overriding rule applies to every platform whose own rule is not overridden.
    """

    @override
    def __missing__(self, op: Primitive) -> Function:
        if op in self.missing_rules:
            return super().__missing__(op)
        return lowering_rules[op]

    @override
    def is_unread(self, op: Primitive) -> bool:
        return super().is_unread(op) and lowering_rules.is_unread(op)


_platforms: dict[str, PlatformTable] = {}  # one entry per platform


def platform_rules(platform: str) -> PlatformTable:
    """Return the table of one platform's rules, which take precedence over `lowering_rules`.

    Args:
      platform: `cpu`, `cuda`, `rocm` or `tpu`.
    Returns:
      The table, created on the first call: `platform_rules("cuda").define(primitive, rule)`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> from lamina_lowering.extend import lower_to_op
    >>> with platform_rules("tpu").override(prims.tanh_p, lower_to_op("stablehlo.sine")):
    ...     ["stablehlo.sine" in lower(program, platform=name).as_text() for name in ("cpu", "tpu")]
    [False, True]
    """
    table = _platforms.get(platform)
    if table is None:
        table = _platforms[platform] = PlatformTable(f"lowering for {platform}", f"lamina_lowering/rules/{platform}",
                                                     leading_params=("ctx",))
    return table


def has_platform_rule(prim: Primitive) -> bool:
    """Return whether a primitive has a rule of its own on some platform."""
    return any(dict.__contains__(table, prim) for table in _platforms.values())


class MergedRules(dict[Primitive, Callable[..., Any]]):
    """The common rules merged with those of one platform, at one `version`; a missing rule raises the error of the
    tables."""

    def __init__(self, platform: str) -> None:
        overlay = platform_rules(platform)
        self.platform = platform
        self.version = _version(platform)
        own, common = overlay.overridden, lowering_rules.overridden
        self.overridden = own | common
        super().__init__(lowering_rules)
        for op in overlay.missing_rules:
            if op not in common:
                self.pop(op, None)
        self.update({op: row for op, row in overlay.items() if op not in common or op in own})
        self.overlay = overlay

    def __missing__(self, op: Primitive) -> Function:
        return self.overlay[op]


_merged: dict[str, MergedRules] = {}


def merged_rules(platform: str) -> MergedRules:
    """Return the rules in force on a platform as a dict that does not change; its `version` is part of cache keys."""
    known = _merged.get(platform)
    while known is None or known.version != _version(platform):
        known = _merged[platform] = MergedRules(platform)  # repeat if a rule changed while merging
    return known


def _version(platform: str) -> tuple[int, int]:
    return lowering_rules.version, platform_rules(platform).version
