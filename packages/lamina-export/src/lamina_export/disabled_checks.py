"""Which safety checks a user has switched off for an exported function."""
from __future__ import annotations

from typing_extensions import override

__all__ = ["DisabledSafetyCheck", "checked_checks"]


class DisabledSafetyCheck:
    """A check that `export`, and calls of what it gives, leave out. Made by `platform()`, `custom_call(name)`,
    `shape_assertions()`; equal where they leave out the same.

    >>> DisabledSafetyCheck.custom_call("my_kernel")
    custom_call:my_kernel
    >>> DisabledSafetyCheck.platform() == DisabledSafetyCheck.platform()
    True
    """

    __slots__ = ("_text",)

    def __init__(self, _text: str) -> None:
        self._text = _text

    @staticmethod
    def platform() -> DisabledSafetyCheck:
        """Calls run on any platform, not only on those that the function was exported for."""
        return DisabledSafetyCheck("platform")

    @staticmethod
    def custom_call(target_name: str) -> DisabledSafetyCheck:
        """The function may use this compiled function of another library.

        Args:
          target_name: its name, as registered with the compiler.
        """
        if not isinstance(target_name, str):
            raise TypeError(f"DisabledSafetyCheck.custom_call: expected a name; got {type(target_name).__name__}: "
                            f"{target_name!r}")
        return DisabledSafetyCheck(f"custom_call:{target_name}")

    @staticmethod
    def shape_assertions() -> DisabledSafetyCheck:
        """Calls take arguments whose sizes break a constraint of the symbolic shapes."""
        return DisabledSafetyCheck("shape_assertions")

    def is_custom_call(self) -> str | None:
        """The name of the compiled function, of `custom_call`; else None."""
        return self._text.partition(":")[2] or None

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._text == other._text

    @override
    def __hash__(self) -> int:
        return hash(self._text)

    @override
    def __repr__(self) -> str:
        return self._text

    __str__ = __repr__


def checked_checks(call: str, checks: object) -> tuple[DisabledSafetyCheck, ...]:
    """The checks that are left out, of an argument."""
    if isinstance(checks, DisabledSafetyCheck) or not hasattr(checks, "__iter__"):
        raise TypeError(f"{call}: disabled_checks must be a sequence of DisabledSafetyCheck; got {checks!r}")
    found = tuple(checks)
    for c in found:
        if not isinstance(c, DisabledSafetyCheck):
            raise TypeError(f"{call}: disabled_checks must hold DisabledSafetyCheck.platform(), .custom_call(name) and "
                            f".shape_assertions(); got {type(c).__name__}: {c!r}")
    return found
