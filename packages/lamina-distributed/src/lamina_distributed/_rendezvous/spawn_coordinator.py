"""Start a coordinator as a light process. Of this package it needs only `coordinator`, `_coordinator` and `_rendezvous`.

The package's `__init__` would import all packages and take about as long again, so it is replaced by an empty module.
"""
from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

from .rendezvous_protocol import CALL

__all__ = ["start_coordinator"]

_PROGRAM = """import sys, types
package = types.ModuleType("lamina_distributed")
package.__path__ = [sys.argv.pop(1)]
sys.modules["lamina_distributed"] = package
from lamina_distributed import coordinator
sys.exit(coordinator.main())"""


def start_coordinator(address: str, key: bytes, startup_timeout: float,
                      detach: bool = True) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a coordinator. Return the address it listens at, and the process.

    A detached coordinator runs in the background, and the returned process has ended. Otherwise the coordinator is the
    returned process. It ends when its standard input is closed, hence at the latest when this process ends.

    Args:
      address: `host:port` to listen at.
      key: the token.
      startup_timeout: seconds after which it ends if no process has connected.
      detach: whether it runs in the background.
    Raises:
      OSError: it cannot listen there, with the reason.
      ConnectionError: it does not start.
    """
    package_path = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    environment = {**os.environ, "LAMINA_TOKEN": key.decode(), "PYTHONPATH": paths}
    log = os.environ.get("LAMINA_COORDINATOR_LOG")
    command = [sys.executable, "-c", _PROGRAM, package_path, address, f"--startup-timeout={startup_timeout}",
               "--detach" if detach else "--exit-on-stdin-close"]
    with open(log, "ab") if log else open(os.devnull, "wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=errors, cwd="/", env=environment,
                                 start_new_session=True)
    assert child.stdout is not None
    with child.stdout as out:
        line = out.readline()  # empty if the process ends without a report
    if detach:
        child.wait()
    try:
        report = json.loads(line)
    except ValueError:
        raise ConnectionError(f"{CALL}: the coordinator ({sys.executable}) did not start; set "
                              "LAMINA_COORDINATOR_LOG=file to see its output") from None
    if "error" in report:
        child.wait()
        raise OSError(report["errno"] or errno.EINVAL, report["error"])
    return report["address"], child
