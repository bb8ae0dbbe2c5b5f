"""Gathers of JSON values through the key-value store of the service."""
from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from lamina_runtime.extend.processes import HostGather

_LIMIT = 600_000  # milliseconds to wait for a value; before that, jaxlib ends this process if another one is lost


class StoreGather(HostGather):
    """A sequence of gathers: in each round every process posts its values, and reads those of the others.

    Args:
      call: the operation, for error messages.
      group: the group of this process.
      prefix: start of the keys, the same in all processes.
    """

    def __init__(self, call: str, group: Any, prefix: str) -> None:
        self.call, self.rank, self.count = call, group.rank, group.count
        self._client, self._prefix, self._round, self._has_failed = group.client, prefix, 0, False

    def gather(self, **values: object) -> list[dict[str, Any]]:
        """Return the values that each process passes here, by process index; RuntimeError if one has failed."""
        self._post(values)
        return self._read(range(self.count))

    def wait_for_process_0(self) -> None:
        """Wait until process 0 has come here. Process 0 itself does not wait."""
        if self.rank == 0:
            self._post({})
        self._read([0])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Post an error of this process as its values of the round for which the others wait."""
        if error is not None and not self._has_failed:
            self._post({"failed": f"{type(error).__name__}: {error}"[:1000]})

    def _post(self, values: dict[str, Any]) -> None:
        self._client.key_value_set(f"{self._prefix}/{self._round}/{self.rank}", json.dumps(values))

    def _read(self, ranks: Sequence[int]) -> list[dict[str, Any]]:
        keys = [f"{self._prefix}/{self._round}/{r}" for r in ranks]
        self._round += 1
        found = [json.loads(self._client.blocking_key_value_get(key, _LIMIT)) for key in keys]
        failed = [f"process {r}: {v['failed']}" for r, v in zip(ranks, found) if "failed" in v]
        if failed:
            self._has_failed = True
            raise RuntimeError(f"{self.call} failed in another process, so it was not done: {'; '.join(failed):.2000}")
        return found
