"""`checkpoint_policies`: which residuals a checkpointed function saves for its backward pass."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

from typing_extensions import override
from lamina_ir import prims

__all__ = ["Recompute", "Saveable", "checkpoint_policies"]

_Policy = prims.CheckpointPolicy


class _Decision:
    """Decision that a user-defined policy may return for a value, as an alternative to True or False."""

    def __init__(self, name: str, keep: bool) -> None:
        self.name, self.keep = name, keep

    def __bool__(self) -> bool:
        return self.keep

    @override
    def __repr__(self) -> str:
        return self.name


Saveable, Recompute = _Decision("Saveable", True), _Decision("Recompute", False)


def _names(call: str, names: Sequence[str]) -> tuple[str, ...]:
    for n in names:
        if not isinstance(n, str):
            raise TypeError(f"checkpoint_policies.{call}: names must be strings as given to checkpoint_name; got {n!r}")
    return tuple(names)


def save_anything_except_these_names(*names_not_to_save: str) -> _Policy:
    """Save every value except those with these names."""
    return _Policy("anything_except_names", _names("save_anything_except_these_names", names_not_to_save))


def save_any_names_but_these(*names_not_to_save: str) -> _Policy:
    """Save all named values except those with these names."""
    return _Policy("any_names_but", _names("save_any_names_but_these", names_not_to_save))


def save_only_these_names(*names_which_can_be_saved: str) -> _Policy:
    """Save only values with these names."""
    return _Policy("only_names", _names("save_only_these_names", names_which_can_be_saved))


def save_from_both_policies(policy_1: Callable[..., bool], policy_2: Callable[..., bool]) -> _Policy:
    """Save the values that either policy saves."""
    for p in (policy_1, policy_2):
        if not callable(p):
            raise TypeError(f"checkpoint_policies.save_from_both_policies: expected two policies; got {p!r}")
    return _Policy("both", (), (policy_1, policy_2))


def _offload(call: str, src: str, dst: str) -> prims.Offload:
    for what, kind in (("offload_src", src), ("offload_dst", dst)):
        if kind not in ("device", "pinned_host", "unpinned_host"):
            raise ValueError(f"checkpoint_policies.{call}: {what} must be 'device', 'pinned_host' or 'unpinned_host'; got "
                             f"{kind!r}")
    return prims.Offload(src, dst)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> _Policy:
    """Save results of matrix products without batch dimensions, in another memory.

    Args:
      offload_src: the memory they are computed in and brought back to, usually "device".
      offload_dst: the memory they are stored in, usually "pinned_host".

    On CPU the host memory is the device memory, so the values are only saved. On other devices the program annotates
    the memory of each value (`annotate_device_placement`) and the compiler moves it; both passes must be in one `jit`.
    Outside `jit` nothing is moved.
    """
    return _Policy("offload_dots_with_no_batch_dims",
                   offload=_offload("offload_dot_with_no_batch_dims", offload_src, offload_dst))


def save_and_offload_only_these_names(*, names_which_can_be_saved: Sequence[str],
                                      names_which_can_be_offloaded: Sequence[str], offload_src: str,
                                      offload_dst: str) -> _Policy:
    """Save values with the first names in place, and values with the second names in another memory.

    See `offload_dot_with_no_batch_dims`.
    """
    call = "save_and_offload_only_these_names"
    saved, offloaded = _names(call, names_which_can_be_saved), _names(call, names_which_can_be_offloaded)
    both = [n for n in saved if n in offloaded]
    if both:
        raise ValueError(f"checkpoint_policies.{call}: a name can be saved or offloaded, not both; got {both}")
    return _Policy("offload_names", saved, (), offloaded, _offload(call, offload_src, offload_dst))


checkpoint_policies = SimpleNamespace(
    everything_saveable=_Policy("everything"),
    nothing_saveable=_Policy("nothing"),
    dots_saveable=_Policy("dots"),
    checkpoint_dots=_Policy("dots"),
    dots_with_no_batch_dims_saveable=_Policy("dots_with_no_batch_dims"),
    checkpoint_dots_with_no_batch_dims=_Policy("dots_with_no_batch_dims"),
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names)
