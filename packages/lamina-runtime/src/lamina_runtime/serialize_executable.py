"""Save a compiled call as bytes, and load it in another process without compiling it.

The bytes hold the program and its executable, which is machine code: load only bytes that you trust. The executable fits one
build of jaxlib and one kind of device and processor. `load_compiled` compiles the program again elsewhere;
`lamina.export` saves functions for other machines.
"""
from __future__ import annotations

import hashlib
import json
import os
import struct
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override
from lamina_ir import ClosedJaxpr, ExecutionError, LaminaError, dumps, loads, trees
from lamina_ir.errors import mark_builtin_error
from lamina_ir.extend import Placement, lower_keys, treedef_from_json, treedef_to_json
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Device, Tree
from lamina_tracing.extend import JitSpec, StagedProgram, eval_jaxpr

from . import _jaxlib
from ._backend import backends, client_state
from ._compile import disk_cache, stored_lowering
from ._compile.stored_lowering import StoredLowering
from ._dispatch.stages import Compiled, Lowered, Traced
from ._execute import executable
from ._version import __version__

__all__ = ["deserialize_and_load", "load_compiled", "save_compiled", "serialize"]

_MAGIC = b"\x89LAMEXE\n"
_FORMAT = 2
_HEAD = struct.Struct("<8sI32sQQ")  # magic, format, sha256 of header and program, bytes of the header, of the program


class _Loaded(Compiled):
    """A compiled call whose executable was deserialized."""

    def __init__(self, lowered: Lowered, payload: bytes, stored: StoredLowering | None) -> None:
        self._payload, self._stored = payload, stored
        self._by_placement: dict[Placement, executable.CompiledProgram] = {}
        super().__init__(lowered)

    @override
    def _program_at(self, place: Placement) -> executable.CompiledProgram:
        own = self._place
        if client_state.is_closed(own.devices[0]):
            raise RuntimeError(f"call of `{self._spec.name}`: it was loaded for a device of a client that was closed by "
                               "clear_backends(). Load it again")
        if place._replace(committed=own.committed) != own:
            raise mark_builtin_error(ValueError(
                f"call of `{self._spec.name}`: it was loaded for the device {own.devices[0]}; the arguments are on "
                f"{', '.join(map(str, place.devices))}. Move them, or load it with execution_devices"))
        if place not in self._by_placement:
            spec = self._spec
            self._by_placement[place] = executable.CompiledProgram(
                spec.call, self._lowered._lowered_closed, spec.name, place, spec.keep_unused, self._overrides,
                self._lowered._rules, self._payload, lowered=self._stored)
        return self._by_placement[place]


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Return a compiled call as bytes, with the structures of its arguments and result.

    Args:
      compiled: a compiled call of one device, `f.lower(...).compile()`.
    Returns:
      The bytes, the structure of (args, kwargs) and that of the result: the arguments of `deserialize_and_load`.
    Raises:
      TypeError: it is not a compiled call.
      ValueError: it runs on several devices, or calls Python.
      ExecutionError: jaxlib cannot serialize it; on CPUs this is so if it sorts.

    >>> import numpy as np
    >>> from lamina_tracing import jit
    >>> compiled = jit(lambda x: x + 1).lower(np.zeros(2, np.float32)).compile()
    >>> deserialize_and_load(*serialize(compiled))(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    return _pack("serialize", compiled, False), compiled.in_tree, compiled.out_tree


def _pack(call: str, compiled: Compiled, has_trees: bool) -> bytes:
    """Return a compiled call as bytes, with or without the structures of its arguments and result."""
    if not isinstance(compiled, Compiled):
        raise TypeError(f"{call}: compiled must be a compiled call, as jit(f).lower(x).compile(); got "
                        f"{type(compiled).__name__}")
    spec, place, program = compiled._spec, compiled._place, compiled._program
    if len(place.devices) > 1 or place.one_member_per_device:
        raise ValueError(f"{call}: `{spec.name}` must run on one device, outside of maps over devices; it runs on "
                         f"{', '.join(map(str, place.devices))}. The compilation cache stores programs of several devices")
    if program.lowered.host_functions:
        raise ValueError(f"{call}: `{spec.name}` calls Python functions, which other processes do not have")
    source, payload = dumps(compiled._staged.closed), program.loaded.payload
    try:
        payload = payload or program.executable.serialize()
    except _jaxlib.JaxRuntimeError as e:
        raise ExecutionError(f"{call}: jaxlib cannot serialize the executable of `{spec.name}`: {e}. Use lamina.export for "
                             "its program") from e
    structures = {"in_tree": compiled.in_tree, "out_tree": compiled.out_tree} if has_trees else {}
    header = json.dumps({
        "writer": f"lamina-runtime {__version__}", "name": spec.name, "call": spec.call, **_describe(place.devices[0]),
        "committed": place.committed, "donated": compiled._donated, "keep_unused": spec.keep_unused,
        "options": compiled._overrides, "module": _digest_module(program),
        "lowering": stored_lowering.describe_lowering(program.lowered, len(program.out_avals)),
        "executable": hashlib.sha256(payload).hexdigest(),
        **{name: treedef_to_json(tree) for name, tree in structures.items()}}).encode()
    head = _HEAD.pack(_MAGIC, _FORMAT, hashlib.sha256(header + source).digest(), len(header), len(source))
    return head + header + source + payload


def deserialize_and_load(serialized: bytes, in_tree: PyTreeDef, out_tree: PyTreeDef, backend: str | None = None,
                         execution_devices: Sequence[Device] | None = None) -> Compiled:
    """Load a compiled call that `serialize` returned.

    Args:
      serialized: the bytes; they contain machine code, so they must come from a source that you trust.
      in_tree, out_tree: the structures of (args, kwargs) and of the result.
      backend: name of a platform; None: the default one.
      execution_devices: a sequence of one device, to which arguments are moved; None: the default device of the platform.
    Returns:
      The compiled call. Its results have the sharding of one device, without a mesh.
    Raises:
      TypeError: an argument has another type.
      ValueError: the bytes are damaged, or were written for another jaxlib, processor or kind of device; or the structures
        do not fit.
    """
    call = "deserialize_and_load"
    header, closed, payload = _parse(call, serialized)
    device = _choose_device(call, backend, execution_devices)
    if not _is_whole(header, payload):
        raise ValueError(f"{call}: the bytes are damaged or cut off (the checksum of the executable does not fit)")
    problem = _explain_other_host(header, device)
    if problem is not None:
        raise ValueError(f"{call}: {problem}. Compile it here")
    for what, tree, count in (("in_tree", in_tree, len(closed.in_avals)), ("out_tree", out_tree, len(closed.out_avals))):
        if not hasattr(tree, "num_leaves"):
            raise TypeError(f"{call}: {what} must be a PyTreeDef, as serialize returns it; got {type(tree).__name__}")
        if tree.num_leaves != count:
            raise ValueError(f"{call}: {what} must have {count} leaves; got {tree}")
    stored = _find_stored_lowering(header, closed, device)
    compiled = _Loaded(_rebuild(header, closed, in_tree, out_tree, device, stored), payload, stored)
    if stored is None and header["module"] != _digest_module(compiled._program):
        raise ValueError(f"{call}: {_explain_other_module(header)}. Compile and serialize it again")
    return compiled


def save_compiled(compiled: Compiled, path: str | os.PathLike[str]) -> None:
    """Write a compiled call to a file, which `load_compiled` reads: the program, its executable, the trees of arguments.

    The file appears when it is complete. It replaces an older one.

    Args:
      compiled: a compiled call of one device, `f.lower(...).compile()`.
      path: the file.
    Raises:
      TypeError: it is not a compiled call.
      ValueError: it runs on several devices, or calls Python, or a tree has nodes without a form in files
        (`lamina.export.register_pytree_node_serialization`).
      ExecutionError: jaxlib cannot serialize it.
      OSError: the file cannot be written.
    """
    data = _pack("save_compiled", compiled, True)
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"save_compiled: the folder {target.parent} does not exist. Create it")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load_compiled(path: str | os.PathLike[str], backend: str | None = None,
                  execution_devices: Sequence[Device] | None = None) -> Compiled:
    """Load a compiled call from a file, without tracing, and without compiling if its executable fits this process.

    The executable does not fit another jaxlib, processor or kind of device. Then, and if it is damaged, a warning says why,
    and the program in the file is compiled.

    Args:
      path: a file of `Compiled.save`. It contains machine code, so it must come from a source that you trust.
      backend: name of a platform; None: the default one.
      execution_devices: a sequence of one device, to which arguments are moved; None: the default device of the platform.
    Returns:
      The compiled call.
    Raises:
      OSError: the file cannot be read.
      ValueError: it is no such file, or its program is damaged.

    >>> import tempfile
    >>> import numpy as np
    >>> from lamina_tracing import jit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     jit(lambda x: x + 1).lower(np.zeros(2, np.float32)).compile().save(f"{folder}/call")
    ...     loaded = load_compiled(f"{folder}/call")
    >>> loaded(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    call = "load_compiled"
    header, closed, payload = _parse(call, Path(path).read_bytes())
    if "in_tree" not in header:
        raise ValueError(f"{call}: {path} holds bytes of serialize, without the trees; load it with deserialize_and_load")
    device = _choose_device(call, backend, execution_devices)
    in_tree, out_tree = treedef_from_json(header["in_tree"]), treedef_from_json(header["out_tree"])
    stored = _find_stored_lowering(header, closed, device)
    problem = _explain_other_host(header, device)
    if not _is_whole(header, payload):
        problem = f"the executable of `{header['name']}` is damaged or cut off"
    if problem is None:
        try:
            loaded = _Loaded(_rebuild(header, closed, in_tree, out_tree, device, stored), payload, stored)
            if stored is not None or header["module"] == _digest_module(loaded._program):
                return loaded
            problem = _explain_other_module(header)
        except ExecutionError:
            problem = f"jaxlib cannot load the executable of `{header['name']}`"
    warnings.warn(f"{call}: {path}: {problem}; its program is compiled again", RuntimeWarning, stacklevel=2)
    return _rebuild(header, closed, in_tree, out_tree, device, None).compile()


def _find_stored_lowering(header: dict[str, Any], closed: ClosedJaxpr, device: Device) -> StoredLowering | None:
    """Return what the file says of the lowered program; None if it must be lowered and compared."""
    fields = header.get("lowering")
    if fields is None or not stored_lowering.are_rules_equal(fields):
        return None
    return StoredLowering(fields, header["name"], backends.lowering_platform(device), lower_keys(closed))


def _is_whole(header: dict[str, Any], payload: bytes) -> bool:
    return hashlib.sha256(payload).hexdigest() == header["executable"]


def _explain_other_module(header: dict[str, Any]) -> str:
    return (f"`{header['name']}` is lowered to another module than when it was compiled, by {header['writer']} with other "
            "lowering rules")


def _digest_module(program: executable.CompiledProgram) -> str:
    return hashlib.sha256(program.lowered.bytecode()).hexdigest()


def _describe(device: Device) -> dict[str, str]:
    """Return what an executable depends on besides its program."""
    return {"jaxlib": _jaxlib.VERSION, "platform": device.platform, "kind": device.device_kind,
            "version": device.client.platform_version, "host": disk_cache.host_digest().hex()}


def _explain_other_host(header: dict[str, Any], device: Device) -> str | None:
    """Return why an executable does not fit this process; None if it fits."""
    found = _describe(device)
    for key, what in (("jaxlib", "jaxlib"), ("platform", "platform"), ("kind", "kind of device"),
                      ("version", "platform version")):
        if header[key] != found[key]:
            return f"`{header['name']}` was compiled for the {what} {header[key]!r}; this is {found[key]!r}"
    if header["host"] != found["host"]:
        return (f"`{header['name']}` was compiled by {header['writer']} for another processor, another version of "
                "lamina-runtime or other XLA_FLAGS")
    return None


def _choose_device(call: str, backend: str | None, devices: Sequence[Device] | None) -> Device:
    if devices is None:
        return backends.default_device() if backend is None else backends.devices(backend)[0]
    given = list(devices)
    if len(given) != 1:
        raise ValueError(f"{call}: execution_devices must hold one device; got {given!r:.80}")
    return given[0]


def _parse(call: str, serialized: bytes) -> tuple[dict[str, Any], ClosedJaxpr, bytes]:
    """Return the header, the program and the executable."""
    if not isinstance(serialized, bytes | bytearray | memoryview):
        raise TypeError(f"{call}: serialized must be bytes; got {type(serialized).__name__}. Open files in binary mode ('rb')")
    data = bytes(serialized)
    if data[:8] != _MAGIC or len(data) < _HEAD.size:
        raise ValueError(f"{call}: these bytes are no compiled call of serialize, or are cut off")
    _, version, digest, n_header, n_program = _HEAD.unpack_from(data)
    body = data[_HEAD.size:]
    if version != _FORMAT:
        raise ValueError(f"{call}: the call was written in format {version}; this version reads format {_FORMAT}")
    if n_header + n_program > len(body) or hashlib.sha256(body[:n_header + n_program]).digest() != digest:
        raise ValueError(f"{call}: the bytes are damaged or cut off (their checksum does not fit)")
    try:
        header = json.loads(body[:n_header])
        return header, loads(body[n_header:n_header + n_program]), body[n_header + n_program:]
    except (LaminaError, ValueError) as e:
        raise ValueError(f"{call}: the bytes are malformed: {e}") from None


def _rebuild(header: dict[str, Any], closed: ClosedJaxpr, in_tree: PyTreeDef, out_tree: PyTreeDef, device: Device,
             stored: StoredLowering | None) -> Lowered:
    """Return the lowered call of a program, for one device."""
    def run(*args: Tree, **kwargs: Tree) -> Tree:
        return trees.tree_unflatten(out_tree, eval_jaxpr(closed, trees.tree_leaves((args, kwargs))))

    run.__name__ = run.__qualname__ = header["name"]
    is_placed = header["committed"] or device is not backends.default_device()
    spec = JitSpec(run, device=device if is_placed else None, keep_unused=header["keep_unused"],
                   compiler_options=dict(header["options"]), call=header["call"])
    staged = StagedProgram(closed, [], out_tree)
    traced = Traced(spec, staged, in_tree, tuple(header["donated"]), lower_keys(closed).in_avals)
    return traced.lower() if stored is None else Lowered(traced, None, stored)
