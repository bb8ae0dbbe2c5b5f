"""Write calls that fail as files, find wrong results of compiled programs, and shrink both to small programs.

The settings:

- `replay_folder`: the folder for files of failed calls: those that raise, and those that give a NaN or an infinity
  (`replay_nonfinite`). `replay_max_files` limits their number.
- `shadow_every`: compare every n-th launch of each program with its NumPy evaluation, in a thread. If they differ, warn,
  and raise `DifferenceError` at the next launch or at the end of the process.
- `shadow_wait`: compare within the call instead, so that the call itself raises.

They are settings like those of `lamina.config`, which knows them once this module is imported. While all are off, calls
cost what they cost without this module.

    from lamina import replay
    replay.replay_folder.set("failures")       # or LAMINA_REPLAY_FOLDER=failures
    with replay.shadow_every(100):
        train()

`python -m lamina replay FILE --shrink` runs a file and reduces it; `python -m lamina_ir.replay FILE` needs NumPy only.
"""
from __future__ import annotations

from .._replay.errors import DifferenceError
from .._replay.settings import replay_folder, replay_max_files, replay_nonfinite, shadow_every, shadow_wait

__all__ = ["DifferenceError", "replay_folder", "replay_max_files", "replay_nonfinite", "shadow_every", "shadow_wait"]
