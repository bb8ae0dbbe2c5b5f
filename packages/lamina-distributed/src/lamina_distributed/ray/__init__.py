"""Run a function in several workers of a Ray cluster, which join one system of devices.

`run` starts the workers, and replaces those that are lost. `initialize_from_ray_train` joins the workers of Ray Train.
Ray is imported when one of them is called: `pip install lamina-distributed[ray]`.
"""
from __future__ import annotations

from ._failures import WorkerFailedError
from ._run import run
from ._train import initialize_from_ray_train

__all__ = ["WorkerFailedError", "initialize_from_ray_train", "run"]
