"""What both sides of the lobby share: addresses, lines of JSON, and the token that decides who may join.

The lobby is where processes meet before jaxlib lets them, for that ends the process over a wrong address, a number that is
taken, a peer that never comes. `coordinator` keeps it, `presence` comes to it; `docs/processes.md` has the picture. The
coordinator speaks first, with a challenge; who comes answers with what it is and a digest (HMAC) of both under the token, and
is shown in the same way that the coordinator has it. The token itself never travels. Standard library only: the coordinator
starts fast.
"""
from __future__ import annotations

import hmac
import ipaddress
import json
import os
import socket
import stat
from typing import Any

__all__ = ["CALL", "LONGEST", "PROTOCOL", "Lines", "check_reach", "keep_alive", "mac", "place", "resolve", "token",
           "written"]

CALL = "distributed.initialize"
PROTOCOL = 1
LONGEST = 1 << 16  # bytes of a line
NAMED_LOOPBACK = ("localhost", "ip6-localhost", "localhost.localdomain")


# --- addresses ----------------------------------------------------------------------------------------------------
def place(address: Any, argument: str = "coordinator_address") -> tuple[str, int]:
    """`host:port` in two parts. ValueError for anything else."""
    name, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not name.strip("[]") or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{CALL}: {argument} must be 'host:port'; got {address!r}")
    return name.strip("[]"), int(port)


def written(host: str, port: int) -> str:
    """`host:port`, with brackets where the host has colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve(host: str) -> list[str]:
    """The numbers of a host, IPv4 first. `socket.gaierror` (an OSError) when it is unknown."""
    found = [str(i[4][0]) for i in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    return sorted(dict.fromkeys(found), key=lambda n: ":" in n)


def on_loopback(host: str) -> bool:
    """Whether a host's numbers reach no further than the machine that asks. `socket.gaierror` when it is unknown."""
    return all(ipaddress.ip_address(n.split("%")[0]).is_loopback for n in resolve(host))


def check_reach(host: str, several_hosts: bool | None, argument: str = "coordinator_address") -> None:
    """ValueError for an address that means each machine's own self, where another machine is meant.

    Args:
      several_hosts: whether the processes are known to be on several; None where nobody said.
    """
    try:
        if not on_loopback(host):
            return
    except OSError:
        return  # unknown: whoever connects or listens says so
    literal = host in NAMED_LOOPBACK or host.replace(".", "").isdigit() or ":" in host
    mine = socket.gethostname().split(".")[0].lower()
    if several_hosts or (not literal and host.split(".")[0].lower() != mine):
        raise ValueError(f"{CALL}: {argument} {host} is {', '.join(resolve(host))} on {mine}: the loopback, which other "
                         f"machines do not reach. Give the number of process 0's machine in your network, or mend /etc/hosts")


def keep_alive(s: socket.socket, seconds: float) -> None:
    """Have a silent network end a connection after half of that, and lines go out at once."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds / 4), ("TCP_KEEPINTVL", seconds / 12), ("TCP_KEEPCNT", 3),
                        ("TCP_USER_TIMEOUT", seconds * 500)):  # milliseconds
        if hasattr(socket, name):
            most = 1 << 30 if name == "TCP_USER_TIMEOUT" else 1 << 14
            s.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), min(max(1, int(value)), most))


# --- lines --------------------------------------------------------------------------------------------------------
class Lines:
    """Lines of JSON objects over a socket, which may be one that never blocks."""

    def __init__(self, s: socket.socket) -> None:
        self.socket = s
        self._held = b""

    def say(self, **words: Any) -> None:
        """Whoever has gone meanwhile is missed elsewhere; who does not read is as good as gone."""
        try:
            self.socket.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            pass

    def arrived(self) -> bool:
        """Read once; whether the other side is still there. OSError as `recv` raises it."""
        more = self.socket.recv(LONGEST)
        self._held += more
        return bool(more)

    def next(self) -> dict[str, Any] | None:
        """The next whole line that has come, if any. ValueError for what is none of ours."""
        line, end, rest = self._held.partition(b"\n")
        if not end:
            if len(line) > LONGEST:
                raise ValueError("a line without end")
            return None
        self._held = rest
        try:
            found = json.loads(line)
        except RecursionError as e:
            raise ValueError("nested too deep") from e
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found

    def wait(self, timeout: float) -> dict[str, Any] | None:
        """The next line, waited for; None when the other side has gone. TimeoutError, ValueError."""
        self.socket.settimeout(max(timeout, 0.01))
        while (found := self.next()) is None:
            try:
                if not self.arrived():
                    return None
            except TimeoutError:
                raise
            except OSError:
                return None
        return found


# --- the token ----------------------------------------------------------------------------------------------------
def mac(key: bytes, *parts: str) -> str:
    """A digest that only who has the key can make. The parts are told apart by their lengths."""
    text = "".join(f"{len(p)}:{p}" for p in ("lamina", *parts))
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def token() -> bytes:
    """The shared secret: LAMINA_TOKEN, else what the file LAMINA_TOKEN_FILE holds, else the user's own, made at first need.

    Raises:
      RuntimeError: the file cannot be read or made, is empty, or may be read by others.
    """
    given = os.environ.get("LAMINA_TOKEN", "").strip()
    if given:
        return given.encode()
    named = os.environ.get("LAMINA_TOKEN_FILE")
    path = os.path.expanduser(named or os.path.join(os.environ.get("XDG_CONFIG_HOME") or "~/.config", "lamina", "token"))
    instead = "Set LAMINA_TOKEN to the same secret in all processes, or LAMINA_TOKEN_FILE to a file with it"
    try:
        if not named and not os.path.exists(path):
            _make_token(path)
        with open(path, "rb") as f:
            about = os.fstat(f.fileno())
            found = f.read(LONGEST).strip()
    except OSError as e:
        raise RuntimeError(f"{CALL}: the token file {path} cannot be read or made: {e.strerror or e}. {instead}") from e
    if not found:
        raise RuntimeError(f"{CALL}: the token file {path} is empty. {instead}")
    if not named and hasattr(os, "getuid") and (about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077):
        raise RuntimeError(f"{CALL}: the token file {path} must be yours alone (chmod 600); others may read it, or it is "
                           f"another user's. {instead}")
    return found


def _make_token(path: str) -> None:
    """Whole or not at all, and once, though many processes may be at it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(os.urandom(32).hex() + "\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first
    finally:
        os.unlink(draft)
