"""The processes of a program as one of them sees them, and with which of them it exchanges tokens."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from .deadlock_detection import WaitGraph
from .peer_sockets import Peer

__all__ = ["MAX_ALL_PAIRS", "LaunchGroup", "exchange_rounds"]

MAX_ALL_PAIRS = 32  # up to so many processes exchange tokens directly


def exchange_rounds(ranks: Sequence[int], rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return for each round the processes to send the token to, and those whose tokens to await before the next round.

    After the last round each process has heard from all. With many processes it does so indirectly: a process that
    sends its token in a later round asserts that all tokens it has received so far were equal.

    >>> exchange_rounds((0, 3, 5), 3)
    [((0, 5), (0, 5))]
    >>> len(exchange_rounds(range(4096), 7))
    12
    """
    n = len(ranks)
    if n <= MAX_ALL_PAIRS:
        others = tuple([r for r in ranks if r != rank])
        return [(others, others)]
    at = list(ranks).index(rank)
    return [((ranks[(at + (1 << k)) % n],), (ranks[(at - (1 << k)) % n],)) for k in range((n - 1).bit_length())]


class LaunchGroup:
    """The processes of some programs, as seen by one of them. A context that holds the locks of its peers.

    Attributes:
      rounds: (peers to send to, peers to receive from) of each round; pairs: all these peers, by rank.
      launches: number of agreed launches over this group.
      attempt: number of the next launch over this group, or of the current one: of those agreed and those given up, also
        those that were given up without this process.
      known_digests: digests of programs that were agreed before, in mode "first".
    """

    __slots__ = ("ranks", "rounds", "pairs", "launches", "attempt", "known_digests", "_wait_graph")

    def __init__(self, ranks: tuple[int, ...], rank: int, get_peer: Callable[[int], Peer],
                 wait_graph: WaitGraph) -> None:
        self.ranks, self._wait_graph = ranks, wait_graph
        self.rounds = [(tuple(map(get_peer, to)), tuple(map(get_peer, of))) for to, of in exchange_rounds(ranks, rank)]
        pairs = {p.rank: p for to, of in self.rounds for p in (*to, *of)}
        self.pairs = tuple([pairs[r] for r in sorted(pairs)])  # all threads lock in this order, so they cannot deadlock
        self.launches = self.attempt = 0
        self.known_digests: set[bytes] = set()

    def __enter__(self) -> None:
        held = []
        try:
            for p in self.pairs:
                if not p.lock.acquire(False):
                    # Otherwise this thread would count as one that may still start a launch. A cycle through this
                    # lock would never be found.
                    with self._wait_graph.waiting_for_lock(p.lock):
                        p.lock.acquire()
                held.append(p)
        except BaseException:
            for p in held:
                p.lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        for p in self.pairs:
            p.lock.release()
