"""The settings of files of failed calls and of shadow mode. `capture` is imported when one of them is first on."""
from __future__ import annotations

import sys
import threading
from importlib import import_module

from lamina_ir import config

__all__ = ["replay_folder", "replay_max_files", "replay_nonfinite", "shadow_every", "shadow_wait"]


def _check_not_negative(name: str, value: object) -> None:
    if isinstance(value, int) and value < 0:
        raise ValueError(f"config {name}: expected an integer of at least 0; got {value!r}")


replay_folder = config.Option(
    "replay_folder", None, kind=str,
    help="the folder in which calls that fail are written as files, for `python -m lamina replay`; None: none are written")
replay_nonfinite = config.Option(
    "replay_nonfinite", True, help="with `replay_folder`: also write calls whose results have a NaN or an infinity that "
                                   "their arguments do not have")
replay_max_files = config.Option(
    "replay_max_files", 20, check=lambda v: _check_not_negative("replay_max_files", v),
    help="the largest number of files that a process writes to `replay_folder`")
shadow_every = config.Option(
    "shadow_every", 0, check=lambda v: _check_not_negative("shadow_every", v),
    help="compare the first and then every n-th launch of each program with its NumPy evaluation, in a thread; a "
         "difference is raised at the next launch; 0: none")

shadow_wait = config.Option(
    "shadow_wait", False, help="with `shadow_every`: compare within the call, which then raises itself; otherwise launches are "
                               "compared in a thread, and those that come meanwhile are left out")

_CAPTURE = "lamina_see._replay.capture"
# (setting, thread) -> whether it is on in a block of the thread; thread None: whether it is on in the process.
_is_on: dict[tuple[str, int | None], bool] = {}


def _on_change(name: str, value: object, is_local: bool) -> None:
    """Wrap launches while a setting is on in some thread."""
    key = name, threading.get_ident() if is_local else None
    _is_on.pop(key, None)
    if value is not config.UNSET:
        _is_on[key] = bool(value)
    is_enabled = any(_is_on.values())
    if is_enabled or hasattr(sys.modules.get(_CAPTURE), "set_enabled"):  # not while `capture` imports this module
        import_module(_CAPTURE).set_enabled(is_enabled)


replay_folder.watch(lambda value, is_local: _on_change("replay_folder", value, is_local))
shadow_every.watch(lambda value, is_local: _on_change("shadow_every", value, is_local))
