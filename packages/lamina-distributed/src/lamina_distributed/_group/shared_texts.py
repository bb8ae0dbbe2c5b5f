"""Texts that all processes of a session share, in the key-value store of the coordination service."""
from __future__ import annotations

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
        self._client.key_value_set(key, text)

    def get(self, key: str) -> str | None:
        """Return a text, None if there is none. It does not wait."""
        try:
            return str(self._client.key_value_try_get(key))
        except runtime.LAUNCH_ERRORS as e:
            if "NOT_FOUND" in str(e):
                return None
            raise

    def delete(self, prefix: str) -> None:
        """Delete the texts whose keys begin with a path."""
        self._client.key_value_delete(prefix)

    def next_number(self, processes: tuple[int, ...]) -> int:
        """Return 0, 1, ... in this session, separately for each group of processes."""
        return next(self._numbers[processes])
