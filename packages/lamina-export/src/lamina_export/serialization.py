"""Write exported functions as bytes and read them.

The format is described in docs/how-to/exported-functions.md. Nothing is pickled, and reading executes no code.
"""
from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

from lamina_ir import LaminaError, ShapedArray, dtypes, split_saved, join_saved
from lamina_ir.extend import register_node_serialization, treedef_from_json, treedef_to_json

from ._version import __version__
from .disabled_checks import DisabledSafetyCheck
from .symbolic_dim import SymbolicDim, find_variables
from .shape_polymorphism import Family
from .symbolic_scope import SymbolicScope, parse_dim

__all__ = ["deserialize_exported", "register_namedtuple_serialization", "register_pytree_node_serialization",
           "serialize_exported"]

MAGIC = b"\x89LAMEXP\n"
FORMAT = 1
_HEAD = struct.Struct("<8sII32sQQ")  # magic, format, reserved 0, sha256 of the rest, bytes of the header, of the program


def register_pytree_node_serialization(nodetype: type, *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
                                       deserialize_auxdata: Callable[[bytes], Any],
                                       from_children: Callable[[Any, Any], Any] | None = None) -> type:
    """Allow nodes of a class in arguments and results of exported functions that are written to files.

    Args:
      nodetype: a class registered as a node of trees.
      serialized_name: its name in files; whoever reads them registers it under this.
      serialize_auxdata: returns the bytes of the auxiliary data that `flatten` returns; deserialize_auxdata: the reverse.
      from_children: `from_children(auxdata, children)` makes a node; None: `nodetype.tree_unflatten`.
    Returns:
      The class.
    Raises:
      ValueError: the class or the name is registered already.
    """
    make = from_children or getattr(nodetype, "tree_unflatten", None)
    register_node_serialization(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, make)
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Allow a class of named tuples in arguments and results of exported functions that are written to files.

    Args:
      nodetype: the class. serialized_name: its name in files; whoever reads them registers it under this.
    Returns:
      The class.
    Raises:
      ValueError: it is no class of named tuples, or class or name are registered already.

    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     x: float
    ...     y: float
    >>> register_namedtuple_serialization(Pair, serialized_name="docs.Pair").__name__
    'Pair'
    """
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"register_namedtuple_serialization: expected a class of named tuples; got {nodetype!r}")
    register_node_serialization(nodetype, serialized_name, lambda data: b"", lambda data: None,
                                lambda data, children: nodetype(*children))
    return nodetype


# --- trees ------------------------------------------------------------------------------------------------------------------
def _serialize_tree(tree: Any) -> Any:
    try:
        return treedef_to_json(tree)
    except ValueError as e:
        raise NotImplementedError(f"serialize: cannot save the structure of arguments or results: {e}. Register node classes "
                                  "with register_namedtuple_serialization or register_pytree_node_serialization") from None


def _deserialize_tree(words: Any) -> Any:
    try:
        return treedef_from_json(words)
    except ValueError as e:
        raise ValueError(f"deserialize: {e}. Register classes of nodes as where the function was written, with "
                         "register_namedtuple_serialization or register_pytree_node_serialization") from None


# --- functions --------------------------------------------------------------------------------------------------------------
def _serialize_aval(a: ShapedArray) -> list[Any]:
    name = "float0" if a.dtype == dtypes.float0 else dtypes.short_name(a.dtype)
    return [name, [n if type(n) is int else str(n) for n in a.shape], int(a.weak_type)]


def _deserialize_aval(words: Any, scope: SymbolicScope) -> ShapedArray:
    name, shape, weak = words
    dtype = dtypes.float0 if name == "float0" else dtypes.from_short_name(name)
    return ShapedArray(tuple([n if type(n) is int else parse_dim(n, scope) for n in shape]), dtype, bool(weak))


def serialize_exported(e: Any, vjp_order: int = 0) -> bytes:
    """The bytes of an `Exported`, with so many derivatives."""
    if type(vjp_order) is not int or vjp_order < 0:
        raise ValueError(f"serialize: vjp_order must be an int of at least 0; got {vjp_order!r}")
    family = e._family
    program = join_saved(family.header, family.buffers)
    header = json.dumps({
        "writer": f"lamina-export {__version__}", "name": e.fun_name, "in_tree": _serialize_tree(e.in_tree),
        "out_tree": _serialize_tree(e.out_tree), "ins": [_serialize_aval(a) for a in e.in_avals],
        "outs": [_serialize_aval(a) for a in e.out_avals], "platforms": e.platforms,
        "left_out": [str(c) for c in e.disabled_safety_checks], "devices": e.nr_devices, "lies": [e.in_shardings_hlo,
                                                                                                  e.out_shardings_hlo],
        "unused": e._keep_unused, "names": family.names, "constraints": family.scope.constraints,
        "holes": [[path, form, str(x) if isinstance(x, SymbolicDim) else x] for path, form, x in family.holes],
    }, separators=(",", ":")).encode()
    body = header + program + (serialize_exported(e.vjp(), vjp_order - 1) if vjp_order else b"")
    return _HEAD.pack(MAGIC, FORMAT, 0, hashlib.sha256(body).digest(), len(header), len(program)) + body


def deserialize_exported(blob: bytes | bytearray, make: Callable[..., Any]) -> Any:
    """What `make`, the class of exported functions, makes of the bytes; see `deserialize`."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(f"deserialize: expected bytes; got {type(blob).__name__}. Open files in binary mode ('rb')")
    data = bytes(blob)
    if data[:8] != MAGIC or len(data) < _HEAD.size:
        raise ValueError("deserialize: the bytes must be those of Exported.serialize; these are not, or are cut off")
    _, version, reserved, digest, n_header, n_program = _HEAD.unpack_from(data)
    if version != FORMAT:
        raise ValueError(f"deserialize: the function was written in format {version}; this version reads format {FORMAT}. "
                         "Use a newer lamina-export")
    body = data[_HEAD.size:]
    if reserved or n_header + n_program > len(body) or hashlib.sha256(body).digest() != digest:
        raise ValueError("deserialize: the function is damaged or cut off (checksum mismatch)")
    try:
        w = json.loads(body[:n_header])
        scope = SymbolicScope(w["constraints"])
        holes = [(tuple(path), str(form), parse_dim(x, scope) if isinstance(x, str) else int(x))
                 for path, form, x in w["holes"]]
        family = Family(*split_saved(body[n_header:n_header + n_program]), holes, scope, [str(n) for n in w["names"]])
        ins, outs = ([_deserialize_aval(a, scope) for a in w[k]] for k in ("ins", "outs"))
        if not find_variables([n for a in (*ins, *outs) for n in a.shape] + [e for *_, e in holes]) <= {*family.names}:
            raise ValueError("deserialize: the function is malformed (it has sizes without a name)")
        if not family.names:
            family.instantiate({})  # what it holds is well formed, or is refused now
        rest = body[n_header + n_program:]
        trees_of = [_deserialize_tree(w[k]) for k in ("in_tree", "out_tree")]
        if [t.num_leaves for t in trees_of] != [len(ins), len(outs)]:
            raise ValueError("deserialize: the function is malformed (its structures and types do not fit)")
        return make(
            fun_name=str(w["name"]), in_tree=trees_of[0], in_avals=ins, out_tree=trees_of[1],
            out_avals=outs, platforms=[str(p) for p in w["platforms"]],
            disabled_safety_checks=[DisabledSafetyCheck(str(c)) for c in w["left_out"]], family=family,
            nr_devices=int(w["devices"]),
            in_shardings_hlo=w["lies"][0], out_shardings_hlo=w["lies"][1], keep_unused=bool(w["unused"]),
            vjp=deserialize_exported(rest, make) if rest else None)
    except LaminaError as e:
        raise ValueError(f"deserialize: {e}") from e
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError, AssertionError) as e:
        raise ValueError(f"deserialize: the function is malformed ({type(e).__name__}: {e})") from e
