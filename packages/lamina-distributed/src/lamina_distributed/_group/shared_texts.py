"""Texts that all processes of a session share, in the key-value store of the coordination service."""
from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator

from lamina_runtime.extend import processes as runtime

from .._typing import CoordinationClient

__all__ = ["SharedTexts"]


class SharedTexts:
    """A `KeyValueStore` of `lamina_runtime.extend.processes`.

    Args:
      client: jaxlib's client of the coordination service.
    """

    def __init__(self, client: CoordinationClient) -> None:
        self._client = client
        self._numbers: defaultdict[tuple[int, ...], Iterator[int]] = defaultdict(itertools.count)

    def set(self, key: str, text: str) -> None:
        """Store a text."""
        try:
            self._client.key_value_set(key, text)
        except runtime.LAUNCH_ERRORS as e:
            raise _lost() from e

    def get(self, key: str) -> str | None:
        """Return a text, None if there is none. It does not wait."""
        try:
            return str(self._client.key_value_try_get(key))
        except runtime.LAUNCH_ERRORS as e:
            if "NOT_FOUND" in str(e):
                return None
            raise _lost() from e

    def delete(self, prefix: str) -> None:
        """Delete the texts whose keys begin with a path."""
        with contextlib.suppress(*runtime.LAUNCH_ERRORS):  # without the coordinator there are none
            self._client.key_value_delete(prefix)

    def next_number(self, processes: tuple[int, ...]) -> int:
        """Return 0, 1, ... in this session, separately for each group of processes."""
        return next(self._numbers[processes])


def _lost() -> runtime.CoordinatorLostError:
    return runtime.CoordinatorLostError("launch: the coordinator is gone, while processes replace a program that was compiled "
                                        "quickly by the optimised one. Call lamina.distributed.shutdown() and "
                                        "initialize(...) in all processes, or set compile_tiers='optimized' before")
