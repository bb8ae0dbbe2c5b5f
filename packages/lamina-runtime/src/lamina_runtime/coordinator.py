"""The coordinator, a process of its own: `python -m lamina_runtime.coordinator [host:port]`.

It keeps the lobby, hosts jaxlib's service for those who met there, and tells each of them at once who has died (the end of
its connection) or left (a goodbye before that). It computes nothing and needs no device, so no mistake of a program ends it; it
ends itself after the last goodbye, or when nobody came. Process 0, or `lamina.launch`, starts one where none listens. One
coordinator may see several systems: who left one may meet again in the next while others still work in the first.
"""
from __future__ import annotations

import argparse
import hmac
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from . import lobby

__all__ = ["Coordinator", "listen", "main"]

_HELLO = 10.0  # seconds in which somebody who has connected says who it is
_MEET = 30.0  # seconds from the word to begin until the last is connected; jaxlib's own limits, which abort, come later
_STRANGERS = 128  # connections that have said nothing yet
_FAREWELL = 5.0  # seconds that members have to let go, when the coordinator is told to end
_BEATS = 6  # how often in a heartbeat timeout members are asked for a sign of life
_BEAT = 4.0  # seconds after which they are at the latest
_ALIKE = 1.0  # seconds in which a launch that failed in one process may fail in all
_TEXT = 4000  # characters of what is told of such a failure
_LISTED = 16  # numbers of processes written out in a message


def _numbers(ranks: Iterable[int]) -> str:
    found = sorted(ranks)
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"{found[:_LISTED]}{more}"


def _peer(s: socket.socket) -> str:
    """The machine at the other end."""
    try:
        return str(s.getpeername()[0])
    except OSError:
        return "an address that is gone"


class _Guest:
    """One connection: a stranger, then a member of a system."""

    def __init__(self, s: socket.socket) -> None:
        self.socket, self.lines = s, lobby.Lines(s)
        self.challenge = os.urandom(16).hex()
        self.until = time.monotonic() + _HELLO
        self.words: dict[str, Any] = {}
        self.system: _System | None = None
        self.connected = False
        self.heard = time.monotonic()

    @property
    def rank(self) -> int:
        return int(self.words["rank"])

    def __str__(self) -> str:
        return f"process {self.rank} ({self.words.get('host')}, pid {self.words.get('pid')})"


class _System:
    """Those who meet, and then work together."""

    def __init__(self, first: _Guest) -> None:
        self.count = int(first.words["count"])
        self.members: dict[int, _Guest] = {}
        self.until = float("inf")
        self.phase = "gathering"  # "connecting", "running"
        self.heartbeat, self.beat = 0.0, float("inf")  # seconds; when to ask for signs of life next
        self.service: Any = None
        self.silent = False  # whether a member may still be connected with the service, and asleep
        self.port = 0
        self.failed: str | None = None  # while connecting
        self.failures: dict[str, tuple[float, dict[int, str]]] = {}  # launches: until when others may fail; who did, and why


def _pause(s: _System) -> float:
    """Seconds between two questions for a sign of life."""
    return min(s.heartbeat / _BEATS, _BEAT)


class Coordinator:
    """The lobby behind a listening socket, and the services of those who met.

    Args:
      door: the listening socket.
      key: the token.
      patience: seconds after which it ends when nobody has come.
      jaxlib: gives the module that makes services, once it is needed.
    """

    def __init__(self, door: socket.socket, key: bytes, patience: float, jaxlib: Callable[[], Any]) -> None:
        self._door, self._key, self._jaxlib = door, key, jaxlib
        self._host = door.getsockname()[0]
        self._strangers: list[_Guest] = []
        self._systems: list[_System] = []
        self._end = time.monotonic() + patience
        self._told = False  # to end
        self._turned_away = (float("-inf"), "")  # when and whence the last came with another token
        self._kept: list[Any] = []  # services that only the end of this process ends
        self._selector = selectors.DefaultSelector()
        door.setblocking(False)
        self._selector.register(door, selectors.EVENT_READ)
        self._wake, self.alarm = socket.socketpair()  # a byte on `alarm` has it look around
        for s in (self._wake, self.alarm):
            s.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)

    # --- the loop -------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until the last has gone."""
        try:
            while self._systems or time.monotonic() < self._end:
                for key, _ in self._selector.select(self._pause()):
                    if key.fileobj is self._door:
                        self._accept()
                    elif key.fileobj is self._wake:
                        self._wake.recv(64)
                    elif key.data in self._strangers or (key.data.system and self._is_member(key.data)):
                        self._read(key.data)
                self._look_at_the_clock()
        finally:
            self._door.close()  # first: who knocks now finds nobody, not a lobby that is about to end
            for g in list(self._strangers):
                self._drop(g)
            for s in self._systems:
                self._drop_all(s)
                self._stop(s)
            self._selector.close()
            self._wake.close()
            self.alarm.close()

    def end(self) -> None:
        """Have members let go of the service, then end; for signal handlers."""
        self._told = True
        try:
            self.alarm.send(b"!")
        except OSError:
            pass

    def _pause(self) -> float:
        times = [g.until for g in self._strangers] + [min(s.until, s.beat) for s in self._systems]
        times += [until for s in self._systems for until, _ in s.failures.values()]
        if not self._systems:
            times.append(self._end)
        return min(max(min(times, default=60.0) - time.monotonic(), 0.0), 60.0)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for g in [g for g in self._strangers if g.until <= now]:
            self._drop(g)
        for s in [s for s in self._systems if s.until <= now]:
            if s.phase == "gathering":
                absent = _numbers(set(range(s.count)) - set(s.members))
                others = sum(len(o.members) for o in self._systems if o is not s)
                beside = f" ({others} that met here before are at work)" if others else ""
                late = f"of {s.count} processes {absent} did not come to the coordinator in time{beside}. "
                (when, whence), patience = self._turned_away, max(g.words["timeout"] for g in s.members.values())
                if when > s.until - 2 * patience:  # while they gathered, or just before
                    self._fail(s, f"{late}Somebody at {whence} came with another token and was turned away: set "
                                  "LAMINA_TOKEN (or LAMINA_TOKEN_FILE) to the same secret in all processes", "permission")
                else:
                    self._fail(s, f"{late}Start them, give them this address and the same num_processes, or raise "
                                  "initialization_timeout", "timeout")
            elif s.phase == "connecting":
                for g in [g for g in s.members.values() if not g.connected]:
                    self._lost(g)
        for s in [s for s in self._systems if s.beat <= now]:
            self._ask(s, now)
        for s in self._systems:
            for launch in [n for n, (until, _) in s.failures.items() if until <= now]:
                for r, text in s.failures.pop(launch)[1].items():
                    for g in list(s.members.values()):
                        g.lines.say(failed=r, name=text)
        if self._told and self._end != float("-inf"):
            self._end = float("-inf")
            for s in list(self._systems):
                if s.phase == "gathering":
                    self._fail(s, "the coordinator was told to end", "connection")
                for g in s.members.values():
                    g.lines.say(closing=True)
                s.until = now + _FAREWELL
        elif self._told:
            for s in [s for s in self._systems if s.until <= now]:
                self._drop_all(s)
                self._systems.remove(s)
                self._stop(s)

    def _ask(self, s: _System, now: float) -> None:
        """Ask for signs of life. Who has given none for the timeout is lost, unless it was this process that slept."""
        pause = _pause(s)
        late = now - s.beat > pause
        s.beat = now + pause
        for g in list(s.members.values()):
            if late:
                g.heard = now
            if now - g.heard > s.heartbeat:
                g.lines.say(lost=g.rank, name=f"process {g.rank} (this one: it gave no sign of life for {s.heartbeat:g} s)")
                s.silent = True
                self._lost(g)
            else:
                g.lines.say(beat=True)

    # --- strangers ------------------------------------------------------------------------------------------------
    def _accept(self) -> None:
        try:
            s, _ = self._door.accept()
        except OSError:
            return  # gone again, or no descriptor left
        s.setblocking(False)
        if len(self._strangers) >= _STRANGERS:
            self._drop(self._strangers[0])
        g = _Guest(s)
        self._strangers.append(g)
        self._selector.register(s, selectors.EVENT_READ, g)
        g.lines.say(lamina=lobby.PROTOCOL, challenge=g.challenge)

    def _read(self, g: _Guest) -> None:
        try:
            here = g.lines.arrived()
        except BlockingIOError:
            return
        except OSError:
            here = False
        try:
            while (words := g.lines.next()) is not None:
                if g.system is None:
                    if "hello" in words:
                        self._welcome(g, words)
                elif "connected" in words and g.system.phase == "connecting":
                    g.connected = True
                    self._all_connected(g.system)
                elif "failed" in words and g.system.phase == "running":
                    self._launch_failed(g.system, g, words)
                elif "bye" in words:
                    return self._left(g)
                if g not in self._strangers and not self._is_member(g):
                    return  # refused
        except ValueError:
            here = False  # none of us
        if here:
            g.heard = time.monotonic()
        else:
            self._lost(g)

    def _is_member(self, g: _Guest) -> bool:
        return g.system is not None and g.system.members.get(g.rank) is g

    def _welcome(self, g: _Guest, words: dict[str, Any]) -> None:
        """ValueError: garbage."""
        text, digest = words.get("hello"), words.get("mac")
        if not isinstance(text, str) or not isinstance(digest, str):
            raise ValueError("no hello")
        if not hmac.compare_digest(digest.encode(), lobby.mac(self._key, "guest", g.challenge, text).encode()):
            text = ("the coordinator has another token. Set LAMINA_TOKEN (or LAMINA_TOKEN_FILE) to the same secret in all "
                    "processes; without it each user's own is taken, which machines without a common home do not share")
            self._turned_away = time.monotonic(), _peer(g.socket)
            return self._refuse(g, text, "permission")
        try:
            hello = json.loads(text)
        except RecursionError as e:
            raise ValueError("nested too deep") from e
        if not isinstance(hello, dict) or any(type(hello.get(n)) is not int for n in ("rank", "count")):
            raise ValueError("no hello")
        if any(type(hello.get(n)) not in (int, float) for n in ("timeout", "heartbeat", "leaving")):
            raise ValueError("no hello")
        g.words = hello
        if self._told:
            return self._refuse(g, "the coordinator was told to end", "connection")
        self._join(g)

    def _join(self, g: _Guest) -> None:
        system = next((s for s in self._systems if s.phase == "gathering"), None)
        wrong = self._misfit(g, system)
        if wrong:
            text = f"{wrong}. Each process needs a number of its own, the same num_processes and the same versions"
            self._refuse(g, text, "value")
            if system is not None:  # it cannot come about: nobody waits for what will not happen
                self._fail(system, text, "value")
            return
        if system is None:
            system = _System(g)
            self._systems.append(system)
        self._strangers.remove(g)
        g.system = system
        system.members[g.rank] = g
        lobby.keep_alive(g.socket, g.words["heartbeat"])
        g.lines.say(proof=lobby.mac(self._key, "coordinator", g.challenge, str(g.words.get("nonce"))))
        system.until = min(system.until, time.monotonic() + g.words["timeout"])
        if len(system.members) == system.count:
            self._begin(system)

    def _misfit(self, g: _Guest, system: _System | None) -> str | None:
        count = g.words["count"]
        if count < 1 or not 0 <= g.rank < count:
            return f"process_id must be in [0, num_processes); {g} has {count}"
        if system is None:
            return None
        other = system.members[min(system.members)]
        if count != system.count:
            return f"num_processes is {count} in {g} and {system.count} in {other}"
        if g.rank in system.members:
            return f"process_id {g.rank} is taken: {g} and {system.members[g.rank]} came with it"
        mine, theirs = g.words.get("fits"), other.words.get("fits")
        if mine != theirs:
            return f"processes must agree; {g} has {mine}, {other} has {theirs}"
        return None

    def _refuse(self, g: _Guest, text: str, kind: str) -> None:
        g.lines.say(error=f"{lobby.CALL}: {text}", kind=kind)
        self._drop(g)

    # --- systems --------------------------------------------------------------------------------------------------
    def _begin(self, s: _System) -> None:
        """All are here: make the service and have them connect."""
        first = s.members[0].words
        s.heartbeat = first["heartbeat"]
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as hold:  # jaxlib would share another's port without a word
                if hasattr(socket, "SO_REUSEPORT"):
                    hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                hold.bind((self._host, 0))
                s.port = hold.getsockname()[1]
                address = lobby.written(self._host, s.port)
                s.service = self._jaxlib().new_service(address, s.count, int(_MEET) * 3, first["leaving"])
        except Exception as e:  # of any kind: those who wait are told
            return self._fail(s, f"the coordinator cannot host jaxlib's service: {type(e).__name__}: {e}", "connection")
        s.phase, s.until = "connecting", time.monotonic() + _MEET
        for g in list(s.members.values()):
            g.lines.say(begin=s.port, limit=int(_MEET) * 3, heartbeat=s.heartbeat)

    def _all_connected(self, s: _System) -> None:
        if not all(g.connected for g in s.members.values()):
            return
        if s.failed:
            return self._fail(s, s.failed, "connection")
        now = time.monotonic()
        s.phase, s.until, s.beat = "running", float("inf"), now + _pause(s)
        for g in s.members.values():
            g.heard = now
            g.lines.say(ready=True)

    def _fail(self, s: _System, text: str, kind: str) -> None:
        self._systems.remove(s)
        for g in list(s.members.values()):
            self._refuse(g, text, kind)
        self._over(s)

    def _lost(self, g: _Guest) -> None:
        s = g.system
        was = self._is_member(g)
        self._drop(g)
        if s is None or not was:
            return
        if s.phase == "running":
            for other in list(s.members.values()):
                other.lines.say(lost=g.rank, name=str(g))
        elif s.phase == "connecting":  # jaxlib ends those who wait for it, unless somebody comes in its place
            s.failed = f"{g} ended while the processes were connecting"
            if not g.connected and s.members:
                threading.Thread(target=self._stand_in, args=(s, g.rank, g.words), daemon=True).start()
            self._all_connected(s)
        self._close_if_empty(s)

    def _stand_in(self, s: _System, rank: int, words: dict[str, Any]) -> None:
        client = self._jaxlib().new_distributed_client(lobby.written(self._near(), s.port), rank, int(_MEET) * 3,
                                                       words["leaving"])
        try:
            client.connect()
            client.shutdown()
        except Exception:
            pass  # the service is gone: nobody waits any more

    def _near(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)

    def _left(self, g: _Guest) -> None:
        s = g.system
        assert s is not None
        self._drop(g)
        for other in list(s.members.values()):
            if s.phase == "running":
                other.lines.say(left=g.rank, name=str(g))
        self._close_if_empty(s)

    @staticmethod
    def _launch_failed(s: _System, g: _Guest, words: dict[str, Any]) -> None:
        """A launch failed in a member. If it does in all of them nobody waits for their data, and they go on; else all members
        are told."""
        launch = str(words.get("launch"))
        _, those = s.failures.setdefault(launch, (time.monotonic() + _ALIKE, {}))
        those[g.rank] = f"{g}: {str(words['failed'])[:_TEXT]}"
        if len(those) == words.get("of"):
            del s.failures[launch]
            for r in those:
                if r in s.members:
                    s.members[r].lines.say(alike=launch)

    def _close_if_empty(self, s: _System) -> None:
        if not s.members and s in self._systems:
            self._systems.remove(s)
            self._over(s)

    def _over(self, s: _System) -> None:
        self._stop(s)
        if not self._systems:
            self._end = min(self._end, time.monotonic())

    def _drop_all(self, s: _System) -> None:
        s.silent = s.silent or bool(s.members)
        for g in list(s.members.values()):
            self._drop(g)

    def _stop(self, s: _System) -> None:
        service, s.service = s.service, None
        if s.silent:  # its last words would end who hears them when it wakes; a connection that breaks does not
            self._kept.append(service)
        elif service is not None:
            try:
                service.shutdown()
            except Exception:
                pass  # it ends with us

    def _drop(self, g: _Guest) -> None:
        if g in self._strangers:
            self._strangers.remove(g)
        if self._is_member(g):
            assert g.system is not None
            del g.system.members[g.rank]
        try:
            self._selector.unregister(g.socket)
        except (KeyError, ValueError):
            pass
        g.socket.close()


# --- as a program -------------------------------------------------------------------------------------------------
def listen(address: str) -> socket.socket:
    """The door at `host:port`; port 0 takes a free one. OSError as `bind` raises it."""
    host, _, port = address.rpartition(":")
    number = lobby.resolve(host.strip("[]"))[0]
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    return socket.create_server((number, int(port)), family=family, backlog=512)


def _tell(**words: Any) -> None:
    """One line to whoever started this; then nobody waits for more output."""
    try:
        print(json.dumps(words), flush=True)
    except OSError:
        pass


def main(argv: list[str] | None = None) -> int:
    """Keep a lobby until the last has gone. Exit status 1 when it cannot listen."""
    parser = argparse.ArgumentParser(prog="python -m lamina_runtime.coordinator", description="Where processes meet; see "
                                     "docs/processes.md. Prints one line of JSON once it listens.")
    parser.add_argument("address", nargs="?", default="127.0.0.1:0", help="host:port to listen at; port 0: a free one")
    parser.add_argument("--patience", type=float, default=600, metavar="S", help="end when nobody came within S seconds")
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    parser.add_argument("--leash", action="store_true", help="end with standard input")
    options = parser.parse_args(argv)
    if options.detach and os.fork():  # nobody's child: it is waited for by nobody, and a signal to a group does not reach it
        os._exit(0)
    try:
        key = lobby.token()
        door = listen(options.address)
    except (OSError, ValueError, RuntimeError) as e:
        _tell(error=str(getattr(e, "strerror", None) or e), errno=getattr(e, "errno", None))
        return 1
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one descriptor a member
    about = Coordinator(door, key, options.patience, _jaxlib)
    threading.Thread(target=_jaxlib, daemon=True).start()  # it takes a third of a second, while they come
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: about.end())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if options.leash:
        threading.Thread(target=_follow, args=(about,), daemon=True).start()
    _tell(address=lobby.written(*door.getsockname()[:2]), pid=os.getpid())
    if options.detach:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    about.run()
    os._exit(0)  # jaxlib's threads have nothing left to do


def _follow(about: Coordinator) -> None:
    sys.stdin.buffer.read()
    about.end()


def _jaxlib() -> Any:
    # late: the lobby is open while this is loaded
    from . import _jaxlib as found
    return found


if __name__ == "__main__":
    sys.exit(main())
