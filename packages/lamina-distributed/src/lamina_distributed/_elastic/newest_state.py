"""Find the newest state among the processes of a group, and send it to all of them by collectives of the group.

First the processes gather a header of fixed size from each: whether it has state, its step, and a digest of the
structure, shapes and dtypes. All of them then make the same decision. If a process has no tree, the source sends a
description of its tree. Then it sends the data, in chunks: a sum of its bytes and the zeros of the others.

An error of one process before the exchange is sent in place of its header, so that no process waits for another.
"""
from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from lamina_ir import prims, trees
from lamina_ir.extend.runtimes import treedef_from_json, treedef_to_json
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Tree, Value
from lamina_runtime.extend.processes import (AXIS, ArrayImpl, all_process_collective, host_value, process_count,
                                             process_index)

__all__ = ["share_newest_state"]

_CALL = "share_newest_state"
_NOTHING, _EXAMPLE, _STATE, _FAILED = range(4)  # what a process has
_MAX_CHUNK, _MIN_CHUNK = 1 << 23, 1 << 12  # bytes of one collective
_MAX_TEXT = 1000  # bytes of the error text of a process
_MAX_STEP = 1 << 63


class _Offer(NamedTuple):
    """What this process has: the values of a tree, described in JSON."""

    kind: int
    step: int = 0
    values: Sequence[np.ndarray] = ()
    structure: PyTreeDef | None = None
    description: bytes = b""
    error: Exception | None = None

    def header(self) -> np.ndarray:
        """Return the header: kind, step, number of bytes of the description, and the digest, as uint32."""
        from hashlib import sha256  # noqa: PLC0415 (late: the import takes a millisecond or two)
        words = [self.kind, self.step >> 32, self.step & 0xffffffff, len(self.description)]
        return np.append(np.array(words, np.uint32), np.frombuffer(sha256(self.description).digest(), np.uint32))


def share_newest_state(state: Tree, step: int | None) -> tuple[Tree, int | None]:
    """Send the newest state among all processes to each of them. All processes must call this.

    Call it after `initialize`: a process that was started in place of a lost one gets the state of the others. The
    state is that with the largest step; among equal ones, that of the process with the lowest index.

    Args:
      state: a tree of arrays and numbers that this process has as a whole. None: it has no state. With a step of None
        it is an example: only its structure, shapes and dtypes count.
      step: number of completed steps in `state`, at least 0. None: this process has no state.
    Returns:
      The newest state, a tree of NumPy arrays that is the same in all processes, bit for bit, and its step. In the
      process that had it, the arrays may share memory with `state`. (None, None) if no process has state.
    Raises:
      ValueError: in all processes: the trees differ in structure, shapes or dtypes; names the process and the path.
        Or a process has state None, and the tree has nodes other than lists, tuples, dicts, None and classes that are
        registered for files: pass an example instead.
      TypeError: this process's state or step is invalid.
      RuntimeError: that of another process is.
      ProcessLostError: a process was lost meanwhile.

    >>> import numpy as np
    >>> share_newest_state({"w": np.zeros(2)}, 5)
    ({'w': array([0., 0.])}, 5)
    >>> share_newest_state(None, None)
    (None, None)
    """
    own = _make_offer(state, step)
    if own.error is not None and process_count() == 1:
        raise own.error
    headers = _gather(own.header())
    kinds, steps = headers[:, 0], [int(h[1]) << 32 | int(h[2]) for h in headers]
    failed = [p for p, kind in enumerate(kinds) if kind == _FAILED]
    if failed:
        texts = _gather_texts(f"{type(own.error).__name__}: {own.error}" if own.error is not None else "")
        if own.error is not None:
            raise own.error
        raise RuntimeError(f"{_CALL}: it failed in " + "; in ".join(f"process {p}: {texts[p]}" for p in failed))
    source = max((p for p, kind in enumerate(kinds) if kind == _STATE), key=lambda p: (steps[p], -p), default=None)
    if source is None:
        return None, None
    is_source = process_index() == source
    description = own.description
    is_different = [bool(np.any(h[3:] != headers[source, 3:])) for h in headers]
    if any(is_different):
        description = _receive_description(own, int(headers[source, 3]), is_source)
        _raise_if_different(own, description, source,
                            [p for p, kind in enumerate(kinds) if is_different[p] and kind != _NOTHING])
    if is_source:
        values, structure = own.values, own.structure
    else:
        found = json.loads(description)
        values = [np.empty(shape, dtype) for _, shape, dtype in found["leaves"]]
        structure = own.structure or treedef_from_json(found["tree"])
    _broadcast(values, is_source)
    assert structure is not None
    return structure.unflatten(values), steps[source]


# --- the state of this process ------------------------------------------------------------------------------------
def _make_offer(state: Tree, step: int | None) -> _Offer:
    """Describe the state of this process. An error is part of the result, because the other processes wait."""
    try:
        number = 0 if step is None else _check_step(step)
        if state is None:
            if step is not None:
                raise TypeError(f"{_CALL}: step must be None in a process without state; got {step!r}. Pass the state "
                                "of this step")
            return _Offer(_NOTHING)
        flat, structure = trees.tree_flatten_with_path(state)
        paths = [f"state{trees.keystr(path)}" for path, _ in flat]
        values = [_to_host(x, path) for (_, x), path in zip(flat, paths)]
        try:
            encoded = treedef_to_json(structure)
        except ValueError as e:
            encoded = {"error": str(e)}
        leaves = [[path, v.shape, v.dtype.name] for path, v in zip(paths, values)]
        description = json.dumps({"tree": encoded, "structure": str(structure), "leaves": leaves}).encode()
        return _Offer(_EXAMPLE if step is None else _STATE, number, values, structure, description)
    except Exception as e:
        return _Offer(_FAILED, error=e)


def _check_step(step: object) -> int:
    try:
        number = -1 if isinstance(step, bool) else operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < _MAX_STEP:
        raise TypeError(f"{_CALL}: step must be a number of steps from 0 on, or None; got {step!r:.80}")
    return number


def _to_host(x: Value, path: str) -> np.ndarray:
    """Return a leaf as a contiguous NumPy array of its own dtype."""
    if isinstance(x, np.ndarray) and type(x) not in (np.ndarray, np.memmap):
        raise TypeError(f"{_CALL}: {path} must be an array or a number; got {type(x).__name__}")
    try:
        # A copy of an array on a device: it must be readable after the device is closed.
        value = np.array(host_value(x)) if type(x) is ArrayImpl else np.asarray(x)
    except Exception as e:
        raise TypeError(f"{_CALL}: {path} cannot be read: {type(e).__name__}: {e}. Keep the state of the last complete "
                        "step on the host, as NumPy arrays") from e
    kind, dtype = value.dtype.kind, value.dtype
    if kind not in "biufc" and (kind != "V" or issubclass(dtype.type, np.void)):
        raise TypeError(f"{_CALL}: {path} must be an array or a number; got {type(x).__name__} of dtype {dtype}")
    return np.ascontiguousarray(value, dtype.newbyteorder("=") if kind != "V" else dtype).reshape(value.shape)


# --- the exchange -------------------------------------------------------------------------------------------------
def _psum(data: np.ndarray) -> np.ndarray:
    return all_process_collective(prims.psum_p, data, process_count(), axes=(AXIS,), axis_index_groups=None)


def _gather(data: np.ndarray) -> np.ndarray:
    """Return the data of all processes, one in each row."""
    count = process_count()
    if count == 1:
        return data[None]
    return all_process_collective(prims.all_gather_p, data, count, all_gather_dimension=0, axis_index_groups=None,
                                  axis_name=AXIS, axis_size=count, tiled=False)


def _gather_texts(text: str) -> list[str]:
    """Return the texts of all processes, each cut to `_MAX_TEXT` bytes."""
    rows = _gather(np.frombuffer(text.encode()[:_MAX_TEXT].ljust(_MAX_TEXT, b"\0"), np.uint32))
    return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in rows]


def _receive_description(own: _Offer, size: int, is_source: bool) -> bytes:
    data = np.frombuffer(own.description, np.uint8) if is_source else np.empty(size, np.uint8)
    _broadcast([data], is_source)
    return data.tobytes()


def _raise_if_different(own: _Offer, description: bytes, source: int, different: Sequence[int]) -> None:
    """Raise in all processes if trees differ, or if a process without a tree cannot make the one of the source."""
    found = json.loads(description)
    if different:
        texts = _gather_texts(_find_difference(json.loads(own.description), found) if own.description else "")
        raise ValueError(f"{_CALL}: the processes must have trees of one structure, shapes and dtypes. Unlike process "
                         f"{source}, " + "; ".join(f"process {p} has {texts[p]}" for p in different))
    if isinstance(found["tree"], dict):
        raise ValueError(f"{_CALL}: a process without state cannot make the tree of process {source}: "
                         f"{found['tree']['error']}. Pass a tree of the same structure there, with step=None")


def _find_difference(own: dict[str, Tree], expected: dict[str, Tree]) -> str:
    """Describe the first difference of a described tree from the expected one."""
    mine, theirs = ({path: (shape, dtype) for path, shape, dtype in d["leaves"]} for d in (own, expected))
    for path in [*theirs, *mine]:
        if path not in mine:
            return f"no {path}"
        (shape, dtype) = mine[path]
        if path not in theirs:
            return f"{path}, {dtype}{shape}, which is not there"
        if mine[path] != theirs[path]:
            return f"{path} as {dtype}{shape} instead of {theirs[path][1]}{theirs[path][0]}"
    return f"the structure {own['structure']:.300} instead of {expected['structure']:.300}"


def _broadcast(values: Sequence[np.ndarray], is_source: bool) -> None:
    """Send the bytes of the source's values to the same values of the other processes, in place."""
    if process_count() == 1:
        return
    for chunk in _cut([v.reshape(-1).view(np.uint8) for v in values]):
        size = sum([p.size for p in chunk])
        # A power of two, so that few programs are compiled.
        data = np.zeros(max(_MIN_CHUNK, 1 << (size - 1).bit_length()), np.uint8)
        if is_source:
            np.concatenate(chunk, out=data[:size])
        # The sum of one process's data and zeros; integers, so it is exact.
        received = _psum(data.view(np.uint32)).view(np.uint8)
        if not is_source:
            for part, piece in zip(chunk, np.split(received[:size], np.cumsum([p.size for p in chunk])[:-1])):
                part[...] = piece


def _cut(parts: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Cut bytes into lists of views, each list of `_MAX_CHUNK` bytes in total, the last one of fewer."""
    chunk, free = [], _MAX_CHUNK
    for p in parts:
        while p.size:
            chunk.append(p[:free])
            p, free = p[free:], free - chunk[-1].size
            if not free:
                yield chunk
                chunk, free = [], _MAX_CHUNK
    if chunk:
        yield chunk
