"""Type aliases for annotations: objects of jaxlib, whose types are not available to type checkers, and messages."""
from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Array", "Client", "CoordinationClient", "CoordinationService", "Message"]

# An array of jaxlib, with one or more shards.
Array: TypeAlias = Any
# A client of one platform: its devices, and the memory and threads that they use.
Client: TypeAlias = Any
# A connection to the coordination service of several processes, and that service.
CoordinationClient: TypeAlias = Any
CoordinationService: TypeAlias = Any
# A message between processes, as JSON.
Message: TypeAlias = dict[str, Any]
