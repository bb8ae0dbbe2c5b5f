"""Shared parts of the rendezvous protocol: addresses, lines of JSON, and the token that authorizes processes.

Processes meet in this protocol before jaxlib connects them. jaxlib would abort the process if an address is wrong, a
process index is taken or a peer never comes. `coordinator` is the server side, `rendezvous_client` the client side;
`docs/how-to/several-processes/processes.md` has a diagram.

The coordinator speaks first and sends a challenge. A process answers with a description of itself, and a MAC
(HMAC-SHA256) of both under the token. The coordinator proves in the same way that it has the token. The token itself is
never sent.

Only the standard library is imported, so that the coordinator starts fast.
"""
from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import os
import socket
import stat

from .._typing import Message

__all__ = ["CALL", "MAX_LINE_BYTES", "PROTOCOL", "LineStream", "check_reachable", "format_address", "load_token", "mac",
           "parse_address", "resolve", "set_keepalive"]

CALL = "distributed.initialize"
PROTOCOL = 2
MAX_LINE_BYTES = 1 << 16
LOOPBACK_NAMES = ("localhost", "ip6-localhost", "localhost.localdomain")


# --- addresses ----------------------------------------------------------------------------------------------------
def parse_address(address: object, argument: str = "coordinator_address") -> tuple[str, int]:
    """Split `host:port`. ValueError if it has another form."""
    name, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not name.strip("[]") or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{CALL}: {argument} must be 'host:port'; got {address!r}")
    return name.strip("[]"), int(port)


def format_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets if the host contains colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve(host: str) -> list[str]:
    """Return the IP addresses of a host, IPv4 first. `socket.gaierror` (an OSError) if it is unknown."""
    found = [str(i[4][0]) for i in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    return sorted(dict.fromkeys(found), key=lambda n: ":" in n)


def is_loopback(host: str) -> bool:
    """Return whether all IP addresses of a host are loopback addresses. `socket.gaierror` if it is unknown."""
    return all(ipaddress.ip_address(n.split("%")[0]).is_loopback for n in resolve(host))


def check_reachable(host: str, several_hosts: bool | None, argument: str = "coordinator_address") -> None:
    """Raise ValueError for a loopback address if processes of other machines must reach it.

    The usual cause is a line like `127.0.1.1 <host name>` in /etc/hosts.

    Args:
      several_hosts: whether the processes run on several machines; None if unknown.
    """
    try:
        if not is_loopback(host):
            return
    except OSError:
        return  # unknown host: connecting or listening reports it
    is_literal = host in LOOPBACK_NAMES or host.replace(".", "").isdigit() or ":" in host
    mine = socket.gethostname().split(".")[0].lower()
    if several_hosts or (not is_literal and host.split(".")[0].lower() != mine):
        raise ValueError(f"{CALL}: {argument} {host} is {', '.join(resolve(host))} on {mine}: the loopback, which "
                         "other machines do not reach. Give the IP address of process 0's machine in your network, or "
                         "correct /etc/hosts")


def set_keepalive(s: socket.socket, seconds: float) -> None:
    """Let a connection fail after half of `seconds` without an answer from the network, and send lines at once."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Silence is noticed after idle + 3 intervals: seconds / 4 + 3 * seconds / 12 = seconds / 2. TCP_USER_TIMEOUT is
    # the same limit for data that is sent and not acknowledged.
    for name, value in (("TCP_KEEPIDLE", seconds / 4), ("TCP_KEEPINTVL", seconds / 12), ("TCP_KEEPCNT", 3),
                        ("TCP_USER_TIMEOUT", seconds * 500)):  # milliseconds
        if hasattr(socket, name):
            limit = 1 << 30 if name == "TCP_USER_TIMEOUT" else 1 << 14
            s.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), min(max(1, int(value)), limit))


# --- lines --------------------------------------------------------------------------------------------------------
class LineStream:
    """JSON objects, one per line, over a socket that may be non-blocking.

    Attributes:
      received: number of bytes received so far.
    """

    def __init__(self, s: socket.socket) -> None:
        self.socket = s
        self._buffer = b""
        self._returned: list[Message] = []
        self.received = 0

    def send(self, **fields: object) -> None:
        """Send an object. Errors are ignored: the reading side notices a broken connection.

        If the other side does not read, so that there is no space for a whole line, the connection is ended: what follows
        half a line could not be understood.
        """
        try:
            self.socket.sendall(json.dumps(fields).encode() + b"\n")
        except (BlockingIOError, TimeoutError):
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def receive(self) -> bool:
        """Call `recv` once. Return whether the connection is still open. OSError as from `recv`."""
        more = self.socket.recv(MAX_LINE_BYTES)
        self._buffer += more
        self.received += len(more)
        return bool(more)

    def is_closed(self) -> bool:
        """Return whether the other side has closed the connection. What it sent before can still be read."""
        try:
            self.socket.settimeout(0)
            while self.receive():
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(None)

    def put_back(self, messages: list[Message]) -> None:
        """Have `pop` return these objects first."""
        self._returned = messages + self._returned

    def pop(self) -> Message | None:
        """Return the next complete object, None if there is none yet. ValueError if it is not a JSON object."""
        if self._returned:
            return self._returned.pop(0)
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError("line too long")
            return None
        self._buffer = rest
        try:
            found = json.loads(line)
        except RecursionError as e:
            raise ValueError("nested too deep") from e
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found

    def read(self, timeout: float) -> Message | None:
        """Wait for the next object. None if the connection was closed. Raises TimeoutError or ValueError."""
        self.socket.settimeout(max(timeout, 0.01))
        while (found := self.pop()) is None:
            try:
                if not self.receive():
                    return None
            except TimeoutError:
                raise
            except OSError:
                return None
        return found


# --- the token ----------------------------------------------------------------------------------------------------
def mac(key: bytes, *parts: str) -> str:
    """Return the MAC of some texts under a key. Lengths are included, so that texts cannot be shifted between parts."""
    # "1:a2:bc" is not "2:ab1:c": without lengths, ("a", "bc") and ("ab", "c") would have one MAC.
    text = "".join(f"{len(p)}:{p}" for p in ("lamina", *parts))
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def load_token() -> bytes:
    """Return the shared secret: LAMINA_TOKEN, else the content of the file LAMINA_TOKEN_FILE, else the user's own
    token.

    The user's own token is in a file that is created when first needed.

    Raises:
      RuntimeError: the file cannot be read or created, is empty, or other users can read it.
    """
    text = os.environ.get("LAMINA_TOKEN", "").strip()
    if text:
        return text.encode()
    named = os.environ.get("LAMINA_TOKEN_FILE")
    config_home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = os.path.expanduser(named or os.path.join(config_home, "lamina", "token"))
    fix = "Set LAMINA_TOKEN to the same secret in all processes, or LAMINA_TOKEN_FILE to a file with it"
    try:
        if not named and not os.path.exists(path):
            _create_token_file(path)
        with open(path, "rb") as f:
            # Of the open file, not of the path: the file cannot be exchanged between the check and the read.
            status = os.fstat(f.fileno())
            token = f.read(MAX_LINE_BYTES).strip()
    except OSError as e:
        raise RuntimeError(f"{CALL}: the token file {path} cannot be read or created: {e.strerror or e}. {fix}") from e
    if not token:
        raise RuntimeError(f"{CALL}: the token file {path} is empty. {fix}")
    if not named and hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
        raise RuntimeError(f"{CALL}: the token file {path} must be readable by you alone (chmod 600); others may read "
                           f"it, or it belongs to another user. {fix}")
    return token


def _create_token_file(path: str) -> None:
    """Create the file atomically, and once even if several processes do so at the same time."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # A complete file appears at once under the final name, so no process reads half a token.
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(os.urandom(32).hex() + "\n")
    try:
        os.link(draft, path)  # fails if the file exists, unlike `rename`
    except FileExistsError:
        pass  # another process was first
    finally:
        os.unlink(draft)
