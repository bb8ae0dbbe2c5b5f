"""Sockets between processes, over which they compare launches; see `launch_agreement`.

Each process listens at its address as the others see it (the loopback, unless the coordinator is elsewhere). On Linux
it also listens at a Unix socket for processes of its own machine: a round trip over that is shorter than over TCP.

There are two connections for each pair of peers, one in each direction. The sender connects when it first has something
to send. A thread of the receiver accepts at any time. Both sides prove that they have the shared token.

Two kinds of frames are sent: tokens of 16 bytes, and messages, which are JSON behind a header of 16 bytes. Messages are
rare: they follow if tokens differ.
"""
from __future__ import annotations

import contextlib
import hmac
import json
import os
import select
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._rendezvous import rendezvous_protocol
from .._typing import Message

__all__ = ["TOKEN_BYTES", "Peer", "PeerSockets", "poll_peers"]

TOKEN_BYTES = 16
_MAGIC = b"\xfflamina\xff"  # 8 bytes at the start of a message. Tokens are digests: 1 in 2**64 starts so
_HEADER = struct.Struct("!8sII")  # magic, length, zero
_MAX_MESSAGE = 1 << 20
_FAST_TIMEOUT = 0.02  # seconds that the fast path waits for a token
_UNIX_PREFIX = "\0lamina/" if sys.platform == "linux" else ""  # zero byte: abstract address, no file
_POLLS, _MAX_SKIPS = 20, 31  # polls for a token before sleeping, some 25 us; see `Peer._receive`
_QUESTION_TIMEOUT = 1.0  # seconds for each step of a question and its answer
_SLOW_TIMEOUT = 10.0     # seconds for a peer's thread to accept, and for a peer's system to take some bytes


class Peer:
    """The state of the connections to another process.

    Attributes:
      rank: its process index.
      send, recv: bound methods of `out_socket` and `in_socket`, looked up once for speed; None while unconnected.
      frames: frames received and not yet handled: bytes for a token, dict for a message.
      early_token: a token that arrived together with the one before it.
      disconnected: whether a connection has ended.
      fast_path_ready: whether the next token may be exchanged at once: no frames are pending and no notice is expected.
      lock: held during a launch over both processes.
      notices_sent, notices_received: numbers of failure notices. Each notice requires one in return.
      expects_notice: whether the peer will send a notice that answers none of ours. Everything before it is ignored.
      state: digest of all launches agreed with this peer since the last exchange of notices.
      token: of the launch that is being compared; token_sent, token_received: whether it was exchanged.
    """

    __slots__ = ("rank", "send", "recv", "out_socket", "in_socket", "frames", "early_token", "disconnected",
                 "fast_path_ready", "lock", "notices_sent", "notices_received", "expects_notice", "state", "token",
                 "token_sent", "token_received", "_buffer", "_skips_left", "_last_skips")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.send: Any = None
        self.recv: Any = None
        self.out_socket: socket.socket | None = None
        self.in_socket: socket.socket | None = None
        self.frames: deque[Any] = deque()
        self.early_token = b""
        self.disconnected = self.fast_path_ready = self.token_sent = self.token_received = self.expects_notice = False
        self.lock = threading.Lock()
        self.notices_sent = self.notices_received = 0
        self.state = self.token = bytes(TOKEN_BYTES)
        self._buffer = bytearray()
        self._skips_left = self._last_skips = 0

    def send_frame(self, what: bytes | Message) -> None:
        """Send a token or a message. Errors are only noted: the caller finds a dead peer by `disconnected`."""
        if isinstance(what, dict):
            text = json.dumps(what).encode()
            what = _HEADER.pack(_MAGIC, len(text), 0) + text
        try:
            if self.out_socket is not None:
                self.out_socket.sendall(what)
        except OSError:
            self.disconnected = True

    def receive_token(self) -> bytes:
        """Receive what arrives within `_FAST_TIMEOUT`, usually one token. OSError if nothing does."""
        data = self._receive() if not self.early_token else self.early_token + self._read_more()
        self.early_token = b""
        # The peer may be one launch ahead: then its next token has arrived too. A message after the token must be seen
        # now, because it may be a notice that takes the token back.
        if len(data) == 2 * TOKEN_BYTES and not data.startswith(_MAGIC, TOKEN_BYTES):
            self.early_token = data[TOKEN_BYTES:]
            return bytes(data[:TOKEN_BYTES])
        return bytes(data)

    def _receive(self) -> bytes:
        # If two processes have a core each, polling costs less than sleeping and being woken. If they share a core,
        # polling keeps the peer off it. So after each unsuccessful series of polls sleep at once for the next 1, 3, 7,
        # ... up to `_MAX_SKIPS` times.
        if self._skips_left:
            self._skips_left -= 1
            return bytes(self.recv(4 * TOKEN_BYTES))
        for _ in range(_POLLS):
            try:
                data = self.recv(4 * TOKEN_BYTES, socket.MSG_DONTWAIT)
                self._last_skips = 0
                return bytes(data)
            except BlockingIOError:
                pass
        self._skips_left = self._last_skips = min(2 * self._last_skips + 1, _MAX_SKIPS)
        return bytes(self.recv(4 * TOKEN_BYTES))

    def _read_more(self) -> bytes:
        try:
            return bytes(self.recv(4 * TOKEN_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return b""

    def feed(self, data: bytes) -> None:
        """Split received bytes, and those kept from before, into frames."""
        buffer = self._buffer
        buffer += data + self.early_token
        self.early_token = b""
        while len(buffer) >= TOKEN_BYTES:
            if buffer[:8] != _MAGIC:
                self.frames.append(bytes(buffer[:TOKEN_BYTES]))
                del buffer[:TOKEN_BYTES]
                continue
            length = _HEADER.unpack_from(buffer)[1]
            # A corrupt length would make this process wait for bytes that never come.
            if length > _MAX_MESSAGE:
                self.disconnected = True
                return
            # The rest of the message has not arrived yet; it stays in the buffer.
            if len(buffer) < TOKEN_BYTES + length:
                return
            self.frames.append(json.loads(bytes(buffer[TOKEN_BYTES:TOKEN_BYTES + length])))
            del buffer[:TOKEN_BYTES + length]

    @property
    def has_partial_frame(self) -> bool:
        """Whether a frame has arrived in part, so that the rest will follow."""
        return bool(self._buffer) and not self.disconnected

    @property
    def awaits_notice(self) -> bool:
        """Whether a notice must arrive first: until then tokens from this peer do not count."""
        return self.expects_notice or self.notices_sent > self.notices_received

    def read_available(self) -> None:
        """Receive what has arrived, without waiting."""
        try:
            while data := self.recv(1 << 16, socket.MSG_DONTWAIT):
                self.feed(data)
            self.disconnected = True
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, ValueError):
            self.disconnected = True

    def update_fast_path(self) -> None:
        """Compute `fast_path_ready`."""
        self.fast_path_ready = bool(
            not self.awaits_notice and self.notices_sent == self.notices_received and not self.frames
            and not self._buffer and self.send and self.recv and not self.disconnected)

    def close(self) -> None:
        self.disconnected, self.fast_path_ready = True, False
        for s in (self.out_socket, self.in_socket):
            if s is not None:
                try:
                    s.shutdown(socket.SHUT_RDWR)  # wakes threads that block on it, which `close` alone would not
                except OSError:
                    pass
                s.close()


def poll_peers(peers: Iterable[Peer], seconds: float) -> None:
    """Wait at most `seconds` until any of these peers has sent something, and receive it."""
    # `poll`, not `select`, which fails for descriptors of 1024 and more.
    poll, by_descriptor = select.poll(), {}
    for p in peers:
        if p.in_socket is None:
            seconds = min(seconds, _FAST_TIMEOUT)  # it may connect at any time, which the poll does not see
        elif not p.disconnected:
            number = p.in_socket.fileno()
            if number >= 0:
                by_descriptor[number] = p
                poll.register(number, select.POLLIN)
    for number, _ in poll.poll(seconds * 1000):
        by_descriptor[number].read_available()


class PeerSockets:
    """The sockets of one process to all its peers.

    Args:
      rank: its process index.
      host: address to listen at, as other processes see it.
      key: the shared token.
      peers: process index -> `address` of that process. Filled before the first connection.

    Attributes:
      address: text by which the other processes connect to this one.
      answer: called in a thread with a peer's question, returns the answer; see `ask`.
      answer_status: returns the answer to the question "status"; see `probe`.
    """

    def __init__(self, rank: int, host: str, key: bytes, peers: Mapping[int, str]) -> None:
        self.rank, self._key, self._peers = rank, key, peers
        self._known: dict[int, Peer] = {}
        self._lock = threading.Lock()
        self._opening: set[socket.socket] = set()  # connections to peers that have not answered yet
        # Bounds the threads that a stranger without the token can make this process start.
        self._call_limit = threading.BoundedSemaphore(64)
        self.answer: Callable[[Message], Message] = lambda question: {}
        self.answer_status: Callable[[Message], Message] = lambda question: {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listeners = [socket.create_server((host, 0), family=family, backlog=256)]
        self._name = os.urandom(16).hex()
        if _UNIX_PREFIX:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unix.bind(_UNIX_PREFIX + self._name)
            unix.listen(256)
            self._listeners.append(unix)
        self.closed = False
        self.address = json.dumps([host, self._listeners[0].getsockname()[1], self._name])
        self._threads = [threading.Thread(target=self._accept, args=(s,), name="lamina-peers", daemon=True)
                         for s in self._listeners]
        for t in self._threads:
            t.start()

    def peer(self, rank: int) -> Peer:
        """Return the state of a peer, which may be unconnected."""
        with self._lock:
            peer = self._known.get(rank)
            if peer is None:
                peer = self._known[rank] = Peer(rank)
            return peer

    def connect(self, peer: Peer) -> None:
        """Connect to a peer. If that fails, mark it as disconnected."""
        try:
            s = self._open("peer", peer.rank, _SLOW_TIMEOUT)
            s.settimeout(None)
            # A timeout of the system: a peer that is stopped, and no longer reads, must not block the sender for
            # ever.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(_SLOW_TIMEOUT))
        except (OSError, ValueError, KeyError):
            peer.disconnected = True
            return
        with self._lock:
            peer.out_socket, peer.send = s, s.send
            # `close` ran meanwhile and did not see this socket.
            if self.closed:
                peer.close()

    def abort_connecting(self) -> None:
        """End the attempts to connect to peers: a stopped one accepts connections and does not answer."""
        with self._lock:
            for s in self._opening:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def ask(self, rank: int, question: Message, seconds: float = _QUESTION_TIMEOUT) -> Message | None:
        """Return a peer's answer to a question; None if there is none in time.

        A thread of the peer answers over a connection of its own, so this works whatever the peer's launches wait for.

        Args:
          rank: the peer.
          question: a JSON object.
          seconds: the time for each step of the exchange.
        """
        return self._ask(rank, question, seconds)[1]

    def probe(self, rank: int, **news: object) -> tuple[str, Message | None]:
        """Return (state, status) of a peer: "alive" with its answer; "gone": it has ended; "silent": neither."""
        return self._ask(rank, {"status": self.rank, **news}, _QUESTION_TIMEOUT)

    def _ask(self, rank: int, question: Message, seconds: float) -> tuple[str, Message | None]:
        try:
            with self._open("question", rank, seconds) as s:
                _send_message(s, question)
                return "alive", _receive_message(s)
        except ConnectionRefusedError:
            return "gone", None  # nothing listens at the address, which a living process does not give up
        except (OSError, ValueError, KeyError):
            return "silent", None

    def _open(self, purpose: str, rank: int, seconds: float) -> socket.socket:
        """Return a new connection to a peer, once both sides have proved that they have the token.

        The listener sends a challenge; the caller answers with a MAC of it and with a nonce; the listener answers with
        a MAC of both. The MACs contain different labels, so that neither side can reflect the other's.

        Raises:
          OSError, ValueError, KeyError: no connection, or a malformed address.
        """
        host, port, name = json.loads(self._peers[rank])
        s = _connect_unix(name, seconds)
        if s is None:
            s = socket.create_connection((host, port), seconds)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if purpose == "peer":
            with self._lock:
                self._opening.add(s)
        try:
            challenge, nonce = _receive_exactly(s, 32).decode(), os.urandom(16).hex()
            proof = rendezvous_protocol.mac(self._key, purpose, name, challenge, str(self.rank), nonce)
            s.sendall(f"{self.rank:08d}{nonce}{proof}".encode())
            expected = rendezvous_protocol.mac(self._key, "here", challenge, nonce).encode()
            if not hmac.compare_digest(_receive_exactly(s, 64), expected):
                raise PermissionError(f"process {rank} did not prove that it has the token")
        except BaseException:
            s.close()
            raise
        finally:
            with self._lock:
                self._opening.discard(s)
        return s

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                s, _ = listener.accept()
            except OSError:
                if self.closed:
                    return
                continue
            # One thread for each connection, since the other side may be slow or hostile; at most 64 at a time.
            if self._call_limit.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(s,), name="lamina-peers-call", daemon=True).start()
            else:
                s.close()

    def _serve(self, s: socket.socket) -> None:
        """Authenticate one incoming connection; then answer its question, or keep it as the peer's `in_socket`."""
        try:
            s.settimeout(_SLOW_TIMEOUT)
            challenge = os.urandom(16).hex()
            s.sendall(challenge.encode())
            text = _receive_exactly(s, 8 + 32 + 64).decode()
            rank, nonce, proof = text[:8], text[8:40], text[40:]
            parts = self._name, challenge, str(int(rank)), nonce
            purposes = [p for p in ("peer", "question") if hmac.compare_digest(
                proof.encode(), rendezvous_protocol.mac(self._key, p, *parts).encode())]
            # The MAC includes the name of this listener and its challenge. So it cannot be replayed here or at
            # another process.
            if not purposes:
                raise PermissionError("no token")
            own_proof = rendezvous_protocol.mac(self._key, "here", challenge, nonce).encode()
            if purposes == ["question"]:
                with s:
                    s.sendall(own_proof)
                    question = _receive_message(s)
                    _send_message(s, self.answer_status(question) if "status" in question
                                  else self.answer(question))
                return
            peer = self.peer(int(rank))
            s.settimeout(None)
            # A timeout of the socket itself: `settimeout` would add a `poll` to each `recv`.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(_FAST_TIMEOUT))
            with self._lock:
                # A second connection in the name of a peer is refused: it could replace the first one between two
                # tokens.
                if self.closed or peer.in_socket is not None:
                    raise PermissionError("connected already")
                s.sendall(own_proof)
                peer.in_socket, peer.recv = s, s.recv
        except (OSError, ValueError):
            s.close()
        finally:
            self._call_limit.release()

    def close(self) -> None:
        """Close all connections and end the threads. Threads that wait for a peer find it disconnected."""
        with self._lock:
            self.closed = True
            for p in self._known.values():
                p.close()
        for listener in self._listeners:
            try:
                listener.shutdown(socket.SHUT_RDWR)  # wakes its thread
            except OSError:
                pass
            listener.close()
        for t in self._threads:
            if t is not threading.current_thread():
                t.join(2)

    def close_in_child(self) -> None:
        """Close the descriptors in a forked child, without a shutdown: the connections are the parent's.

        While the child held copies, the peers would not notice the end of the parent.
        """
        self.closed = True
        for s in (*self._listeners, *[s for p in self._known.values() for s in (p.out_socket, p.in_socket)]):
            if s is not None:
                s.close()
        for p in self._known.values():
            p.disconnected, p.fast_path_ready = True, False


def _receive_exactly(s: socket.socket, n: int) -> bytes:
    data = s.recv(n, socket.MSG_WAITALL)
    while 0 < len(data) < n:  # MSG_WAITALL has no effect on sockets with a Python timeout, which do not block
        more = s.recv(n - len(data))
        if not more:
            break
        data += more
    if len(data) < n:
        raise ConnectionError("the connection was closed")
    return data


def _connect_unix(name: str, seconds: float) -> socket.socket | None:
    """Return a connection to a peer on this machine; None if it is on another."""
    if not _UNIX_PREFIX:
        return None
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.settimeout(seconds)
        s.connect(_UNIX_PREFIX + name)
    except OSError:
        s.close()
        return None
    return s


def _send_message(s: socket.socket, message: Message) -> None:
    text = json.dumps(message).encode()
    s.sendall(_HEADER.pack(_MAGIC, len(text), 0) + text)


def _receive_message(s: socket.socket) -> Message:
    length = _HEADER.unpack(_receive_exactly(s, _HEADER.size))[1]
    if length > _MAX_MESSAGE:
        raise ValueError("message too long")
    message = json.loads(_receive_exactly(s, length))
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def _timeval(seconds: float) -> bytes:
    """Pack a `struct timeval`."""
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
