"""Find, count and shut down the sockets that Gloo opened in this process, and connect to Gloo in place of a lost process.

If a process is lost, Gloo's threads in the other processes wait for its data. A group of devices that is being
connected waits for its connections. Only an end of these connections unblocks them. No documented way exists:

- Gloo's own timeout is half an hour, and jaxlib does not pass another one (`make_gloo_tcp_collectives` takes a client of
  the coordination service, a host name and an interface).
- `CpuCollectives.Finalize` of jaxlib raises "not implemented" for Gloo.
- Leaving the coordination service ends the wait for addresses of a group, not an open connection.
- `ss --kill`, which closes a socket by its addresses, needs administrator rights.

So this module relies on the following. `tests/test_gloo_sockets.py` fails when one of these no longer holds:

- A descriptor in /dev/fd, duplicated, can be made a Python socket, and `shutdown` of it ends the connection for C++ too.
- Gloo communicates over TCP. A process listens at one address, which appears when the collectives are made. One end of
  each connection has that address.
- Gloo reports a connection that ended as the error of the collective that uses it.
- A connection to a listening Gloo begins with the number of the device pair, 8 bytes in native byte order, see
  `connect`.

Sockets of other code are left alone: only those with Gloo's address at one end are shut down.
"""
from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["Address", "connect", "count_external_connections", "internal_connections", "listening_addresses",
           "listening_sockets", "shut_connections"]

Address = tuple[str, int]  # host and port


def connect(address: Address, number: int, timeout: float) -> None:
    """Connect to Gloo as the device pair with this number, and close the connection. Errors are ignored.

    Gloo numbers the pairs of a listening address from 0 on, and accepts a connection if it awaits its number. It keeps a
    connection whose number it does not await yet, with its descriptor, until it does or Gloo ends.
    """
    with contextlib.suppress(OSError), socket.create_connection(address, timeout) as s:
        s.sendall(number.to_bytes(8, sys.byteorder))


def listening_addresses(host: str) -> set[Address]:
    """Return host and port of this process's TCP sockets that listen at `host`."""
    return {a for s in _tcp_sockets() if (a := _listening_address(s)) and a[0] == _normalize((host, 0))[0]}


def listening_sockets(addresses: frozenset[Address]) -> list[socket.socket]:
    """Return duplicates of this process's sockets that listen at these addresses. The caller closes them."""
    # Not `s.dup()`, which would make the socket blocking for Gloo too.
    return [socket.socket(fileno=os.dup(s.fileno())) for s in _tcp_sockets() if _listening_address(s) in addresses]


def _listening_address(s: socket.socket) -> Address | None:
    """Return the address at which a socket listens, or None."""
    return _normalize(s.getsockname()) if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) else None


def shut_connections(addresses: frozenset[Address], preserved: set[int]) -> None:
    """Shut down this process's connections from and to these addresses, except the preserved ones."""
    for s in _tcp_sockets():
        if not addresses.isdisjoint(_endpoints(s)) and _inode(s) not in preserved:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def internal_connections(addresses: frozenset[Address]) -> set[int]:
    """Return the inodes of both ends of connections of this process with itself through these addresses."""
    ends = {_inode(s): _endpoints(s) for s in _tcp_sockets()}
    # Both ends of such a connection are sockets of this process: the remote address of one is the local address of
    # the other.
    local = {e[0] for e in ends.values() if e}
    return {n for n, e in ends.items() if e and e[1] in local and not addresses.isdisjoint(e)}


def count_external_connections(addresses: frozenset[Address]) -> int:
    """Return how many connections with other processes through these addresses are open at both ends."""
    # Connections between devices of this process say nothing about others.
    internal, count = internal_connections(addresses), 0
    for s in _tcp_sockets():
        if not addresses.isdisjoint(_endpoints(s)) and _inode(s) not in internal:
            try:
                # Without consuming data: an empty result means that the other end was closed.
                count += bool(s.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
            except BlockingIOError:
                count += 1
            except OSError:
                pass
    return count


def _endpoints(s: socket.socket) -> tuple[Address, ...]:
    """Return (local address, remote address) of a connection; () for a socket that is not connected."""
    try:
        return _normalize(s.getsockname()), _normalize(s.getpeername())
    except OSError:
        return ()


def _inode(s: socket.socket) -> int:
    """Return a number that identifies a socket; its descriptor here is a duplicate."""
    return os.fstat(s.fileno()).st_ino


def _normalize(address: Any) -> Address:
    """Return (host, port) with IPv4 hosts written as such, and without an IPv6 scope."""
    return str(address[0]).removeprefix("::ffff:").partition("%")[0], int(address[1])


def _tcp_sockets() -> Iterable[socket.socket]:
    """Yield duplicates of this process's TCP sockets, including those of C++ code. Each is valid until the next one."""
    for name in os.listdir("/dev/fd"):
        try:
            # A duplicate, because the socket object closes its descriptor; C++ keeps the original.
            number = os.dup(int(name))
        except (OSError, ValueError):
            continue  # closed meanwhile
        try:
            s = socket.socket(fileno=number)
        except OSError:
            os.close(number)
            continue
        with s:
            if s.family in (socket.AF_INET, socket.AF_INET6) and s.type == socket.SOCK_STREAM:
                yield s
