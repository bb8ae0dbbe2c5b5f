"""Defect: the error of a loss is not ProcessLostError."""
from lamina_distributed import _session
from lamina_distributed._default import *
from lamina_distributed._group import multi_process

__contract__ = 1

launch = multi_process.MultiProcessLauncher.launch


def launch_without_names(self, *args):
    try:
        return launch(self, *args)
    except _session.ProcessLostError as e:
        raise RuntimeError("something happened") from e


multi_process.MultiProcessLauncher.launch = launch_without_names
