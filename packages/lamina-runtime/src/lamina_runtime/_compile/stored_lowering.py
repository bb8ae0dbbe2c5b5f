"""The parts of a lowered program that a launch needs, stored with its executable (`serialize_executable`).

A process that loads a compiled call lowers its program only if the module itself is needed: `as_text`, `plan`.
"""
from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lamina_ir import ClosedJaxpr, layers

from . import lowering

if TYPE_CHECKING:
    from lamina_lowering import Lowered

__all__ = ["StoredLowering", "are_rules_equal", "describe_lowering"]

_PACKAGE = "lamina_lowering"


class StoredLowering:
    """Takes the place of a lowered program, which is made when another attribute is read.

    Args:
      fields: what `describe_lowering` returned.
      name, platform: of the module.
      closed: the program.

    Attributes:
      used_args, const_args, in_avals, out_avals, donation, shardy, needs, host_functions, size: of the lowered program.
    """

    def __init__(self, fields: dict[str, Any], name: str, platform: str, closed: ClosedJaxpr) -> None:
        self.name, self.platform = name, platform
        self.used_args = tuple(fields["used_args"])
        self.in_avals, self.out_avals = [*compress(closed.in_avals, self.used_args)], [*closed.out_avals]
        self.const_args: list[Any] = []
        self.host_functions: list[Any] = []
        self.donation = tuple([(i, k) for i, k in fields["donation"]])
        self.shardy, self.needs = fields["shardy"], frozenset(fields["needs"])
        self.size = SimpleNamespace(nesting=fields["nesting"])
        self._source: Callable[[], Lowered] | None = None
        self._lowered: Lowered | None = None

    def set_source(self, source: Callable[[], Lowered]) -> None:
        """Set the function that lowers the program."""
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self._source is None:
            raise AttributeError(name)
        if self._lowered is None:
            self._lowered = self._source()
        return getattr(self._lowered, name)


def describe_lowering(low: Lowered, num_results: int) -> dict[str, Any] | None:
    """Return the fields of a `StoredLowering` as JSON; None if the program must be lowered when it is loaded."""
    if low.const_args or len(low.out_avals) != num_results or not hasattr(low, "size"):
        return None
    if lowering.changed_rules(low.platform):
        return None
    return {"used_args": low.used_args, "donation": low.donation, "shardy": low.shardy, "needs": sorted(low.needs),
            "nesting": low.size.nesting, "rules": _digest_rules()}


def _digest_rules() -> str:
    """Return a digest of the version of the lowering rules; "" if a plugin lowers programs."""
    spec = find_spec(_PACKAGE)
    if not layers.is_default("lowering") or spec is None or spec.origin is None:
        return ""
    return hashlib.sha256(Path(spec.origin).with_name("_version.py").read_bytes()).hexdigest()


def are_rules_equal(fields: dict[str, Any]) -> bool:
    """Return whether this process would lower the program with the same rules.

    Rules can be overridden once their package is imported. Then the module must be compared instead.
    """
    return _PACKAGE not in sys.modules and fields["rules"] != "" and fields["rules"] == _digest_rules()
