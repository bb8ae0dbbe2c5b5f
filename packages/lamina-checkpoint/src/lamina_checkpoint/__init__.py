"""Checkpoints: trees of arrays in a folder or an object store, saved while a program computes, loaded on any devices.

    with Checkpointer(folder, keep=3) as checkpointer:
        for step in range(1000):
            state = train(state)
            if step % 100 == 0:
                checkpointer.save(step, state)
    state = load(folder, like=state)

Saving is atomic: after a crash or a power failure, a checkpoint is complete or absent. `docs/how-to/checkpoints.md` describes
the files.
"""
from . import _version as _version  # first: it checks the versions of sibling packages
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._checkpointer import Checkpointer
from ._functions import latest, load, save, steps
from ._orbax import load_orbax
from ._safetensors import load_safetensors, save_safetensors
from ._stores import CheckpointError
from ._version import __version__

__all__ = ["CheckpointError", "Checkpointer", "__version__", "latest", "load", "load_orbax",
           "load_safetensors", "save", "save_safetensors", "steps"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
