"""Sockets from member to member, over which they compare what they are about to launch; see `agreement`.

Each member listens at the address where the others find it (loopback, unless the coordinator is elsewhere), and on Linux for
those of its machine at a Unix socket, which takes half the time of TCP. It has one connection to each peer for what it says,
made when first needed, and one from it for what it hears, taken by a thread at any time. Who connects shows that it has the
lobby's token, and so does who is called. What goes over them is tokens of 16 bytes and, where these do not settle it, JSON.
"""
from __future__ import annotations

import hmac
import json
import os
import select
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from . import lobby

__all__ = ["TOKEN", "Peer", "Peers", "read_all"]

TOKEN = 16  # bytes
_WORDS = b"\xfflamina\xff"  # what words begin with, and tokens, which are digests, do not
_HEAD = struct.Struct("!8sII")  # that, the length, and nothing
_LONGEST = 1 << 20
_BLINK = 0.02  # seconds that the quick way waits before it looks around
_NEAR = "\0lamina/" if sys.platform == "linux" else ""  # what Unix sockets are called, which stand in no folder
_TRIES, _RARE = 20, 31  # how often in a row a token is asked for without sleep, some 25 us; see `Peer._awaited`
_SOON = 1.0    # seconds for the answer to a question, and for its parts
_SLOW = 10.0   # seconds for a peer's thread to answer a call, and for a peer's system to take some bytes


class Peer:
    """Another member.

    Attributes:
      rank: its number.
      send, recv: of the sockets to it and from it; None while there is none.
      frames: what has come from it: a token, or a dict; ahead: a token that came with the one before.
      gone: whether a connection has ended.
      clear: whether the next token may be exchanged at once: nothing lies here, and nothing is owed.
      lock: held by a launch over this process and that one.
      told, heard: how many notices of failure it was sent, and has sent. Each asks for one in return.
      owing: whether a notice comes for sure that answers none: what comes before counts for nothing.
      state: a digest of what was launched with it since the last of them.
      token: of the launch that is being agreed; sent, got: whether it was exchanged.
    """

    __slots__ = ("rank", "send", "recv", "frames", "ahead", "gone", "clear", "lock", "told", "heard", "state", "token", "sent",
                 "got", "owing", "out", "into", "_held", "_sleeps", "_vain")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.send: Any = None
        self.recv: Any = None
        self.out: socket.socket | None = None
        self.into: socket.socket | None = None
        self.frames: deque[Any] = deque()
        self.ahead = b""
        self.gone = self.clear = self.sent = self.got = self.owing = False
        self.lock = threading.Lock()
        self.told = self.heard = 0
        self.state = self.token = bytes(TOKEN)
        self._held = bytearray()
        self._sleeps = self._vain = 0  # how often not to ask in vain, next and latest

    def say(self, what: bytes | dict[str, Any]) -> None:
        """Send a token or words. Whoever has gone meanwhile is missed elsewhere."""
        if isinstance(what, dict):
            text = json.dumps(what).encode()
            what = _HEAD.pack(_WORDS, len(text), 0) + text
        try:
            if self.out is not None:
                self.out.sendall(what)
        except OSError:
            self.gone = True

    def next(self) -> bytes:
        """What comes next, waited for a blink: a token as a rule. OSError where nothing does."""
        found = self._awaited() if not self.ahead else self.ahead + self._more()
        self.ahead = b""
        if len(found) == 2 * TOKEN and not found.startswith(_WORDS, TOKEN):
            self.ahead = found[TOKEN:]
            return bytes(found[:TOKEN])
        return bytes(found)  # what lies behind the token matters: it may be taken back

    def _awaited(self) -> bytes:
        # Where two processes have a core each, asking again and again costs less than to sleep and be woken. Where they share
        # one it keeps the other from it: so who has asked in vain sleeps at the next times, up to `_RARE` of them.
        if self._sleeps:
            self._sleeps -= 1
            return bytes(self.recv(4 * TOKEN))
        for _ in range(_TRIES):
            try:
                found = self.recv(4 * TOKEN, socket.MSG_DONTWAIT)
                self._vain = 0
                return bytes(found)
            except BlockingIOError:
                pass
        self._sleeps = self._vain = min(2 * self._vain + 1, _RARE)
        return bytes(self.recv(4 * TOKEN))

    def _more(self) -> bytes:
        try:
            return bytes(self.recv(4 * TOKEN, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return b""

    def came(self, data: bytes) -> None:
        """Take what was received: frames are made of it."""
        held = self._held
        held += data + self.ahead
        self.ahead = b""
        while len(held) >= TOKEN:
            if held[:8] != _WORDS:
                self.frames.append(bytes(held[:TOKEN]))
                del held[:TOKEN]
                continue
            length = _HEAD.unpack_from(held)[1]
            if length > _LONGEST:
                self.gone = True
                return
            if len(held) < TOKEN + length:
                return
            self.frames.append(json.loads(bytes(held[TOKEN:TOKEN + length])))
            del held[:TOKEN + length]

    @property
    def partial(self) -> bool:
        """Whether more of something is to come."""
        return bool(self._held) and not self.gone

    @property
    def silent(self) -> bool:
        """Whether a notice is to come before anything else counts."""
        return self.owing or self.told > self.heard

    def read(self) -> None:
        """Take what is there, without waiting."""
        try:
            while data := self.recv(1 << 16, socket.MSG_DONTWAIT):
                self.came(data)
            self.gone = True
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, ValueError):
            self.gone = True

    def look(self) -> None:
        """Work out `clear`."""
        self.clear = bool(not self.silent and self.told == self.heard and not self.frames and not self._held and self.send
                          and self.recv and not self.gone)

    def close(self) -> None:
        self.gone, self.clear = True, False
        for s in (self.out, self.into):
            if s is not None:
                try:
                    s.shutdown(socket.SHUT_RDWR)  # whoever waits in another thread is woken
                except OSError:
                    pass
                s.close()


def read_all(peers: Iterable[Peer], seconds: float) -> None:
    """Wait so long for something of these peers, and take it."""
    poll, by_number = select.poll(), {}
    for p in peers:
        if p.into is None:
            seconds = min(seconds, _BLINK)  # its connection may come at any time
        elif not p.gone:
            number = p.into.fileno()
            if number >= 0:
                by_number[number] = p
                poll.register(number, select.POLLIN)
    for number, _ in poll.poll(seconds * 1000):
        by_number[number].read()


class Peers:
    """The sockets of one member.

    Args:
      rank: its number.
      host: where it listens: its address, as others see it.
      key: the lobby's token.
      tell: makes a text known to the others; ask: what a peer made known, or OSError.

    Attributes:
      answer: what a peer is answered that asks something, see `question`; called by a thread.
    """

    def __init__(self, rank: int, host: str, key: bytes, tell: Callable[[str], None], ask: Callable[[int], str]) -> None:
        self.rank, self._key, self._ask = rank, key, ask
        self._known: dict[int, Peer] = {}
        self._lock = threading.Lock()
        self._calls = threading.BoundedSemaphore(64)
        self._where: dict[int, dict[str, Any]] = {}
        self.answer: Callable[[dict[str, Any]], dict[str, Any]] = lambda question: {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._doors = [socket.create_server((host, 0), family=family, backlog=256)]
        self._name = os.urandom(16).hex()
        if _NEAR:
            near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            near.bind(_NEAR + self._name)
            near.listen(256)
            self._doors.append(near)
        self.closed = False
        tell(json.dumps({"host": host, "port": self._doors[0].getsockname()[1], "name": self._name}))
        self._threads = [threading.Thread(target=self._listen, args=(d,), name="lamina-peers", daemon=True)
                         for d in self._doors]
        for t in self._threads:
            t.start()

    def peer(self, rank: int) -> Peer:
        with self._lock:
            found = self._known.get(rank)
            if found is None:
                found = self._known[rank] = Peer(rank)
            return found

    def reach(self, peer: Peer) -> None:
        """Connect to a peer. Where that fails it is taken for gone."""
        try:
            s = self._connected("peer", peer.rank, _SLOW)
            s.settimeout(None)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _interval(_SLOW))
        except (OSError, ValueError, KeyError):
            peer.gone = True
            return
        with self._lock:
            peer.out, peer.send = s, s.send
            if self.closed:
                peer.close()

    def question(self, rank: int, words: dict[str, Any]) -> dict[str, Any] | None:
        """What a peer answers, whatever its own launches wait for; None where it does not, in time."""
        try:
            with self._connected("question", rank, _SOON) as s:
                _put(s, words)
                return _get(s)
        except (OSError, ValueError, KeyError):
            return None

    def _connected(self, why: str, rank: int, seconds: float) -> socket.socket:
        """A connection to a peer, both sides of which have shown the token. OSError, ValueError, KeyError."""
        where = self._where.get(rank)
        if where is None:
            where = self._where[rank] = json.loads(self._ask(rank))
        s = _near(where["name"], seconds)
        if s is None:
            s = socket.create_connection((where["host"], where["port"]), seconds)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            challenge, nonce = _exactly(s, 32).decode(), os.urandom(16).hex()
            proof = lobby.mac(self._key, why, where["name"], challenge, str(self.rank), nonce)
            s.sendall(f"{self.rank:08d}{nonce}{proof}".encode())
            if not hmac.compare_digest(_exactly(s, 64), lobby.mac(self._key, "here", challenge, nonce).encode()):
                raise PermissionError(f"process {rank} did not show that it has the token")
        except BaseException:
            s.close()
            raise
        return s

    def _listen(self, door: socket.socket) -> None:
        while True:
            try:
                s, _ = door.accept()
            except OSError:
                if self.closed:
                    return
                continue
            if self._calls.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(s,), name="lamina-peers-call", daemon=True).start()
            else:
                s.close()

    def _answer(self, s: socket.socket) -> None:
        try:
            s.settimeout(_SLOW)
            challenge = os.urandom(16).hex()
            s.sendall(challenge.encode())
            text = _exactly(s, 8 + 32 + 64).decode()
            rank, nonce, proof = text[:8], text[8:40], text[40:]
            why = [w for w in ("peer", "question") if hmac.compare_digest(
                proof.encode(), lobby.mac(self._key, w, self._name, challenge, str(int(rank)), nonce).encode())]
            if not why:
                raise PermissionError("no token")
            here = lobby.mac(self._key, "here", challenge, nonce).encode()
            if why == ["question"]:
                with s:
                    s.sendall(here)
                    _put(s, self.answer(_get(s)))
                return
            peer = self.peer(int(rank))
            s.settimeout(None)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _interval(_BLINK))
            with self._lock:
                if self.closed or peer.into is not None:
                    raise PermissionError("connected already")
                s.sendall(here)
                peer.into, peer.recv = s, s.recv
        except (OSError, ValueError):
            s.close()
        finally:
            self._calls.release()

    def close(self) -> None:
        """End the connections and the thread; whoever waits for a peer finds it gone."""
        with self._lock:
            self.closed = True
            for p in self._known.values():
                p.close()
        for door in self._doors:
            try:
                door.shutdown(socket.SHUT_RDWR)  # wakes its thread
            except OSError:
                pass
            door.close()
        for t in self._threads:
            if t is not threading.current_thread():
                t.join(2)

    def in_child(self) -> None:
        """In a forked child: what it holds of the connections would hide the end of its parent. Nothing is shut down."""
        self.closed = True
        for s in (*self._doors, *[s for p in self._known.values() for s in (p.out, p.into)]):
            if s is not None:
                s.close()
        for p in self._known.values():
            p.gone, p.clear = True, False


def _exactly(s: socket.socket, n: int) -> bytes:
    found = s.recv(n, socket.MSG_WAITALL)
    while 0 < len(found) < n:
        more = s.recv(n - len(found))
        if not more:
            break
        found += more
    if len(found) < n:
        raise ConnectionError("the other side has gone")
    return found


def _near(name: str, seconds: float) -> socket.socket | None:
    """A connection to a peer on this machine; None where it is on another."""
    if not _NEAR:
        return None
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.settimeout(seconds)
        s.connect(_NEAR + name)
    except OSError:
        s.close()
        return None
    return s


def _put(s: socket.socket, words: dict[str, Any]) -> None:
    text = json.dumps(words).encode()
    s.sendall(_HEAD.pack(_WORDS, len(text), 0) + text)


def _get(s: socket.socket) -> dict[str, Any]:
    length = _HEAD.unpack(_exactly(s, _HEAD.size))[1]
    if length > _LONGEST:
        raise ValueError("words without end")
    found = json.loads(_exactly(s, length))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _interval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
