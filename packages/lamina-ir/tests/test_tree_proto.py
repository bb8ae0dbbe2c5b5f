"""Structures of trees as protocol buffers: what is written is read, and other bytes are refused."""
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lamina_ir import trees
from lamina_ir._pytrees_py import PyTreeDef, python_backend

TREES = st.recursive(st.sampled_from([0, None]), lambda inner: st.lists(inner, max_size=3) | st.lists(
    inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=20)
KNOWN = {  # written by jaxlib
    b"\n\x02\x10\x01\n\x02\x10\x01\n\x02\x10\x03\n\x04\x08\x02\x10\x02\n\x04\x08\x02\x10\x04\n\t\x08\x01\x10\x05\x1a\x03\n\x01\x00\x12"
    b"\x01a": {"a": (1, [2, None])}}


def structure(tree):
    return python_backend.flatten(tree)[1]


@given(TREES)
def test_what_is_written_is_read(tree):
    d = structure(tree)
    assert PyTreeDef.deserialize_using_proto(trees.default_registry, d.serialize_using_proto()) == trees.tree_structure(tree)


@pytest.mark.parametrize("data", KNOWN)
def test_jaxlibs_messages(data):
    assert structure(KNOWN[data]).serialize_using_proto() == data
    assert PyTreeDef.deserialize_using_proto(trees.default_registry, data) == trees.tree_structure(KNOWN[data])


def test_of_many():
    many = {f"key {i}": [i] * 20 for i in range(200)}
    data = structure(many).serialize_using_proto()
    assert PyTreeDef.deserialize_using_proto(trees.default_registry, data) == trees.tree_structure(many)
    for end in range(0, len(data) - 1, 1997):
        with pytest.raises(ValueError, match="no structure of a tree"):
            PyTreeDef.deserialize_using_proto(trees.default_registry, data[:end] + b"\x0f")


def test_what_cannot_be_written():
    with pytest.raises(ValueError, match="keys are texts"):
        structure({1: 2}).serialize_using_proto()
    with pytest.raises(ValueError, match="lists, tuples, dicts and None"):
        structure(trees.Partial(len, 1)).serialize_using_proto()


@given(st.binary(max_size=30))
def test_any_bytes(data):
    try:
        PyTreeDef.deserialize_using_proto(trees.default_registry, data)
    except ValueError:
        pass
