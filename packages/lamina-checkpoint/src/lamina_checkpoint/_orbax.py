"""Read checkpoints of orbax: the layout that its "Checkpoint Format Guide" describes.

A tree is a folder with a file `_METADATA` (JSON): for each leaf the keys that lead to it, and its type. Its array is named
by the keys, joined by dots. The arrays have Zarr's format, version 2 or 3, in folders of these names or together in one OCDBT
database.
"""
from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import tensorstore as ts
from lamina_ir import dtypes, trees
from lamina_ir.typing import Tree
from lamina_runtime.extend import begin_gather

from . import _restore, _tree_metadata
from ._functions import check_number
from ._stores import TS_ERRORS, CheckpointError, Store, open_store, ts_context
from ._tree_metadata import EncodedTree, Leaf

__all__ = ["load_orbax"]

_INDEX = "_METADATA"
_STEP = re.compile(r"(?:.*_)?(\d+)")
_IS_SEQUENCE = 1  # `key_type` of a position; other keys are names
_EMPTY: dict[str, EncodedTree] = {"None": None, "Dict": ["dict", [], []], "List": ["list", None, []],
                                  "Tuple": ["tuple", None, []]}
_KEY_TYPES = {"threefry2x32": "key<fry>", "rbg": "key<rbg>", "unsafe_rbg": "key<urbg>"}
_MAX_NAMES = 10  # in one message


class _Entry(NamedTuple):
    """A leaf, or an empty node, of `_METADATA`.

    Attributes:
      keys: the keys that lead to it, and whether each is a position in a sequence.
      kind: the type of the value: `jax.Array`, `np.ndarray`, `scalar`, `string`, or a name of `_EMPTY`.
    """

    keys: tuple[tuple[str, bool], ...]
    kind: str

    @property
    def name(self) -> str:
        return ".".join(key for key, _ in self.keys)


def load_orbax(path: str | os.PathLike[str], like: Tree = None, *, step: int | None = None, item: str | None = None) -> Tree:
    """Load a tree of arrays that orbax has saved, without orbax.

    With several processes, all must call this. Each reads only the parts that its own devices need.

    Args:
      path: the folder of a tree, of a checkpoint with several items, or of the steps of a `CheckpointManager`; or its URL.
      like: the placement of the leaves, as in `load`. Leaves are found by the names and positions that lead to them, so
        named tuples, registered classes and tuples get what was saved from such nodes. None: these become dicts and lists,
        NumPy arrays and numbers are returned as such, and other arrays are put on the default device.
      step: the number of the step; None: the highest.
      item: the item of a checkpoint with several, such as "state"; None: the only one that is a tree.
    Returns:
      The tree.
    Raises:
      FileNotFoundError: the folder, the step or the item does not exist.
      CheckpointError: files are damaged or missing, or were written before orbax had `_METADATA`.
      ValueError: `like` has other leaves, or other shapes; names the leaves. The checkpoint has several items.
      DTypeError: a leaf has another dtype than `like`, or a 64-bit dtype while `enable_x64` is off.

    `docs/how-to/checkpoints.md` has an example.
    """
    call = "load_orbax"
    with begin_gather(call) as meeting:
        store, text = _find_tree(call, path, step, item)
        if len({w["index"] for w in meeting.gather(index=sha256(text).hexdigest())}) > 1:
            raise ValueError(f"{call}: the processes read different checkpoints at {store.root}: path must be a folder that "
                             "all processes share")
        reader = _Reader(call, store, text)
        targets = _match(call, reader.structure, like)
        plans = _restore.plan_leaves(call, reader.leaves, like, targets, False, meeting)
        found = _restore.load_leaves(reader, plans)
    return _restore.build_tree(like, targets, lambda part: _tree_metadata.rebuild(part, found))


# --- the folder of a tree -----------------------------------------------------------------------------------------
def _find_tree(call: str, path: str | os.PathLike[str], step: int | None, item: str | None) -> tuple[Store, bytes]:
    """Return the store of a tree, and its index."""
    store = open_store(call, path)
    names = store.names()
    if not names:
        raise FileNotFoundError(f"{call}: {store.root} has no files, or does not exist")
    numbered = {int(found[1]): name for name in names if (found := _STEP.fullmatch(name))}
    if step is not None and check_number(call, "step", step, 0) not in numbered:
        raise FileNotFoundError(f"{call}: no step {step!r} in {store.root}; it has {sorted(numbered)}")
    if numbered and _INDEX not in names and (step is not None or not _find_items(store, names)):
        store = open_store(call, store.path(numbered[max(numbered) if step is None else step]))
        names = store.names()
    if item is None and (text := store.read(_INDEX)) is not None:
        return store, text
    items = _find_items(store, names)
    if item is None and len(items) > 1:
        raise ValueError(f"{call}: {store.root} has the items {items}; pass item=")
    if item is not None and item not in items:
        raise FileNotFoundError(f"{call}: no tree {item!r} in {store.root}; it has {items}")
    if not items:
        raise CheckpointError(f"{call}: {store.root} has no {_INDEX}: it is not a checkpoint of orbax, or one that was written "
                              "before orbax had this file. Load and save it again with a later orbax")
    chosen = open_store(call, store.path(item or items[0]))
    return chosen, chosen.read(_INDEX) or b""


def _find_items(store: Store, names: Sequence[str]) -> list[str]:
    """Return the names of the folders that hold a tree and are no steps."""
    found = []
    for name in names:
        with suppress(NotADirectoryError):
            if not _STEP.fullmatch(name) and store.read(f"{name}/{_INDEX}") is not None:
                found.append(name)
    return sorted(found)


# --- structure ----------------------------------------------------------------------------------------------------
def _read_entries(place: str, text: bytes) -> tuple[list[_Entry], dict[str, Any]]:
    """Return the leaves and empty nodes of `_METADATA`, and the whole file."""
    try:
        index = json.loads(text)
        entries = [_Entry(tuple([(str(k["key"]), k["key_type"] == _IS_SEQUENCE) for k in record["key_metadata"]]),
                          str(record["value_metadata"]["value_type"])) for record in index["tree_metadata"].values()]
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise CheckpointError(f"{place}: {_INDEX} is damaged: {type(e).__name__}: {e}") from None
    return entries, index


def _encode(place: str, entries: Sequence[tuple[_Entry, EncodedTree]], depth: int = 0) -> EncodedTree:
    """Return the encoded tree of entries whose first `depth` keys are equal; each comes with its encoding."""
    if len(entries) == 1 and len(entries[0][0].keys) == depth:
        return entries[0][1]
    groups: dict[tuple[str, bool], list[tuple[_Entry, EncodedTree]]] = {}
    for entry, part in entries:
        if len(entry.keys) == depth:
            raise CheckpointError(f"{place}: {_INDEX} is damaged: {entry.name!r} is a leaf and a node")
        groups.setdefault(entry.keys[depth], []).append((entry, part))
    if all(is_position and key.isdigit() for key, is_position in groups):
        keys = sorted(groups, key=lambda k: int(k[0]))
        return ["list", None, [_encode(place, groups[key], depth + 1) for key in keys]]
    keys = sorted(groups)
    return ["dict", [key for key, _ in keys], [_encode(place, groups[key], depth + 1) for key in keys]]


def _match(call: str, structure: EncodedTree, like: Tree) -> list[_restore.Target]:
    """Return (part of the encoded tree, leaf of `like`, key path) for each leaf of `like`, found by its keys."""
    if like is None:
        return [(structure, None, ())]
    targets: list[_restore.Target] = []
    missing: list[str] = []
    for path, leaf in trees.tree_flatten_with_path(like, is_leaf=_restore.is_subtree_target)[0]:
        part = structure
        for key in path:
            part = _child(part, key)
        if part is None or not isinstance(part, int) and not _restore.is_subtree_target(leaf):
            missing.append(_tree_metadata.format_path(path))
        targets.append((part, leaf, path))
    used = {number for part, _, _ in targets for number in _leaf_numbers(part)}
    extra = [_tree_metadata.format_path(path) for number, path in _paths(structure, ()) if number not in used]
    differences = [f"{text} {', '.join(paths[:_MAX_NAMES])}{' and others' if len(paths) > _MAX_NAMES else ''}"
                   for text, paths in (("the checkpoint has no leaf", missing), ("`like` has no leaf", extra)) if paths]
    if differences:
        raise ValueError(f"{call}: {'; '.join(differences)}")
    return targets


def _child(part: EncodedTree, key: Any) -> EncodedTree:
    """Return the child of an encoded node for a key of a key path; None if it has none."""
    if not isinstance(part, list):
        return None
    name = next((getattr(key, field) for field in ("key", "name", "idx") if hasattr(key, field)), key)
    tag, names, children = part
    if tag == "dict":
        return children[names.index(str(name))] if str(name) in names else None
    return children[name] if isinstance(name, int) and name < len(children) else None


def _paths(part: EncodedTree, path: tuple[Any, ...]) -> list[tuple[int, tuple[Any, ...]]]:
    """Return (number, key path) of the leaves of an encoded tree."""
    if isinstance(part, int):
        return [(part, path)]
    return [found for child, child_path in _tree_metadata.get_children(part, path) for found in _paths(child, child_path)]


def _leaf_numbers(part: EncodedTree) -> list[int]:
    return [number for number, _ in _paths(part, ())]


# --- data ---------------------------------------------------------------------------------------------------------
class _Reader:
    """Reads the arrays of a tree that orbax has saved.

    Attributes:
      structure: the encoded tree.
      leaves: descriptions of its leaves, by number.
    """

    def __init__(self, call: str, store: Store, text: bytes) -> None:
        self._call, self._place, self._store = call, f"{call}: {store.root}", store
        entries, index = _read_entries(self._place, text)
        self._driver = "zarr3" if index.get("use_zarr3") else "zarr"
        self._is_database = bool(index.get("use_ocdbt", True))
        # Early releases did not store chunks of zeros; with later ones a missing chunk is an error.
        self._zeros_may_be_missing = not index.get("store_array_data_equal_to_fill_value")
        full = [entry for entry in entries if entry.kind not in _EMPTY]
        strings = self._read_json("_strings.json") if any(entry.kind == "string" for entry in full) else {}
        keys = self._read_key_types()
        self._arrays = {i: self._open(entry.name) for i, entry in enumerate(full) if entry.kind != "string"}
        self.leaves = [Leaf("str", value=strings[entry.name]) if entry.kind == "string" else
                       self._describe(i, entry, keys.get(entry.name)) for i, entry in enumerate(full)]
        numbers = {entry.keys: i for i, entry in enumerate(full)}
        self.structure = _encode(self._place, [(entry, _EMPTY.get(entry.kind, numbers.get(entry.keys)))
                                               for entry in entries]) if entries else ["dict", [], []]

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._store.read(name) or b""))
        except (ValueError, TypeError):
            raise CheckpointError(f"{self._place}: {name} is damaged or missing") from None

    def _read_key_types(self) -> dict[str, str]:
        """Return the type of PRNG keys by the name of the array that holds their data."""
        folder = open_store(self._call, self._store.path("array_metadatas"))
        found: dict[str, str] = {}
        for name in folder.names():
            try:
                for record in json.loads(folder.read(name) or b"")["array_metadatas"]:
                    about = record["array_metadata"]
                    kind = (about["ext_metadata"] or {}).get("random_key_impl")
                    if kind is not None:
                        found[about["param_name"]] = _KEY_TYPES[kind]
            except (ValueError, TypeError, KeyError) as e:
                raise CheckpointError(f"{self._place}: array_metadatas/{name} is damaged, or has keys of an unknown type: "
                                      f"{type(e).__name__}: {e}") from None
        return found

    def _open(self, name: str) -> Any:
        """Return a future of TensorStore's object of an array."""
        if self._is_database:
            where = {"driver": "ocdbt", "base": self._store.kvstore(""), "path": f"{name}/"}
        else:
            where = self._store.kvstore(name)
        spec = {"driver": self._driver, "kvstore": where, "fill_missing_data_reads": self._zeros_may_be_missing}
        return ts.open(spec, open=True, context=ts_context())

    def _describe(self, number: int, entry: _Entry, key_type: str | None) -> Leaf:
        place = f"{self._place}: {entry.name}"
        try:
            array = self._arrays[number] = self._arrays[number].result()
            if entry.kind == "scalar":
                return _tree_metadata.describe_leaf(np.asarray(array.read().result()).item(), place)
        except TS_ERRORS as e:
            raise CheckpointError(f"{place} is damaged or missing: {e}") from None
        dtype = dtypes.as_dtype(array.dtype.name).name
        kind = key_type or ("array" if entry.kind == "jax.Array" else "numpy")
        return Leaf(kind, dtype, tuple(array.shape))

    def read_blocks(self, leaf: int, place: str, dtype: np.dtype,
                    blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
        """Fill blocks of a leaf. Each block is (start, array to fill).

        Raises:
          CheckpointError: data are damaged or missing.
        """
        array = self._arrays[leaf]
        try:
            for start, block in blocks:
                index = tuple([slice(a, a + n) for a, n in zip(start, block.shape)])
                block[...] = (array[index] if index else array).read().result()
        except TS_ERRORS as e:
            raise CheckpointError(f"{place} is damaged or missing: {e}") from None
