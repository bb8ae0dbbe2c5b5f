"""Tree structures as protocol buffers: round trips, and errors for other bytes."""
import random

import pytest
from lamina_ir import trees
from lamina_ir.trees._python_backend import PyTreeDef, python_backend

KNOWN = {  # written by jaxlib
    b"\n\x02\x10\x01\n\x02\x10\x01\n\x02\x10\x03\n\x04\x08\x02\x10\x02\n\x04\x08\x02\x10\x04\n\t\x08\x01\x10\x05\x1a\x03\n\x01\x00\x12"
    b"\x01a": {"a": (1, [2, None])}}


def draw_tree(draw, depth=4):
    kind = draw.choice(["leaf", "none", "list", "tuple", "dict"]) if depth else "leaf"
    if kind in ("leaf", "none"):
        return 0 if kind == "leaf" else None
    children = [draw_tree(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == "dict":
        return {"".join(draw.choices("abc\u00e9\u4e00 ", k=3)): child for child in children}
    return children if kind == "list" else tuple(children)


def structure(tree):
    return python_backend.flatten(tree)[1]


def test_structures_round_trip():
    draw = random.Random(0)
    for _ in range(300):
        tree = draw_tree(draw)
        data = structure(tree).serialize_using_proto()
        assert PyTreeDef.deserialize_using_proto(trees.default_registry, data) == trees.tree_structure(tree)


@pytest.mark.parametrize("data", KNOWN)
def test_messages_equal_those_of_jaxlib(data):
    assert structure(KNOWN[data]).serialize_using_proto() == data
    assert PyTreeDef.deserialize_using_proto(trees.default_registry, data) == trees.tree_structure(KNOWN[data])


def test_large_structure_round_trips_and_truncation_is_rejected():
    many = {f"key {i}": [i] * 20 for i in range(200)}
    data = structure(many).serialize_using_proto()
    assert PyTreeDef.deserialize_using_proto(trees.default_registry, data) == trees.tree_structure(many)
    for end in range(0, len(data) - 1, 1997):
        with pytest.raises(ValueError, match="not an encoded tree structure"):
            PyTreeDef.deserialize_using_proto(trees.default_registry, data[:end] + b"\x0f")


def test_unsupported_structures_are_rejected():
    with pytest.raises(ValueError, match="keys of dicts must be strings"):
        structure({1: 2}).serialize_using_proto()
    with pytest.raises(ValueError, match="lists, tuples, dicts or None"):
        structure(trees.Partial(len, 1)).serialize_using_proto()


def test_random_bytes_raise_only_value_error():
    draw = random.Random(1)
    for _ in range(2000):
        try:
            PyTreeDef.deserialize_using_proto(trees.default_registry, draw.randbytes(draw.randrange(30)))
        except ValueError:
            pass
