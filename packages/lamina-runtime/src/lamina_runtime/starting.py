"""Starting a coordinator, as a process that loads little: jaxlib's service is all that it needs of this package.

So it is run without the package's own first file, which would load all rooms and takes as long again.
"""
from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

from .lobby import CALL

__all__ = ["start"]

_LIGHT = """import sys, types
package = types.ModuleType("lamina_runtime")
package.__path__ = [sys.argv.pop(1)]
sys.modules["lamina_runtime"] = package
from lamina_runtime import coordinator
sys.exit(coordinator.main())"""


def start(address: str, key: bytes, patience: float, detach: bool = True) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a coordinator: (the address it listens at, the process).

    Where it is detached the process has ended already, having left its work to another; else it is told to end by the end of
    its standard input, at the latest when this process ends.

    Raises:
      OSError: it cannot listen there, with the reason; ConnectionError when it does not start.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    places = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    environment = {**os.environ, "LAMINA_TOKEN": key.decode(), "PYTHONPATH": places}
    log = os.environ.get("LAMINA_COORDINATOR_LOG")
    command = [sys.executable, "-c", _LIGHT, here, address, f"--patience={patience}", "--detach" if detach else "--leash"]
    with open(log, "ab") if log else open(os.devnull, "wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL if detach else subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=errors, cwd="/", env=environment, start_new_session=True)
    assert child.stdout is not None
    with child.stdout as out:
        line = out.readline()  # its end, if it ends
    if detach:
        child.wait()
    try:
        words = json.loads(line)
    except ValueError:
        raise ConnectionError(f"{CALL}: the coordinator ({sys.executable}) did not start; LAMINA_COORDINATOR_LOG=file keeps "
                              "what it says") from None
    if "error" in words:
        child.wait()
        raise OSError(words["errno"] or errno.EINVAL, words["error"])
    return words["address"], child
