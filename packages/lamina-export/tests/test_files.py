"""Serialized exported functions: round trips, damaged bytes are refused, files of earlier versions stay readable."""
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_export import (__version__, deserialize, export, register_namedtuple_serialization,
                           register_pytree_node_serialization, symbolic_args_specs)
from lamina_ir import ClosedJaxpr, Jaxpr, Var, aval_of, dumps, evaluate, loads, trees
from lamina_tracing import jit

CORPUS = Path(__file__).with_name("corpus")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def make_functions():
    """Return the functions in the corpus, by name."""
    specs = symbolic_args_specs((X, X[0]), ("a, b", "b"), constraints=["a >= 2"])
    yield "known", export(jit(lambda t: {"s": lnp.sin(t["x"]) @ t["w"][0], "n": None}))({"x": X, "w": (X.T,)}), 1
    yield "symbolic", export(jit(lambda x, w: lnp.tanh(x @ w) / x.shape[0]))(*specs), 1


def expected_result(name):
    return {"known": lambda: np.sin(X) @ X.T, "symbolic": lambda: np.tanh(X @ X[0]) / 2}[name]()


def make_operands(name, order):
    """Return flat arguments of a call, or of its derivative if `order` is 1, at other sizes than in the file."""
    draw = np.random.default_rng(order)
    shapes = {"known": [(3, 2), (2, 3), (2, 2)], "symbolic": [(4 + order, 2), (2,), (4 + order,)]}[name]
    return [draw.normal(size=shape).astype(np.float32) for shape in shapes[:2 + order]]


def values(name, e, order):
    """Return a program without equations: the operands and results of a call, stored in the corpus with the function."""
    args = make_operands(name, order)
    results = trees.tree_leaves(e.vjp().call(*args) if order else e.call(*trees.tree_unflatten(e.in_tree, args)[0]))
    consts = [np.asarray(x) for x in (*args, *results)]
    names = [Var(aval_of(x)) for x in consts]
    return dumps(ClosedJaxpr(Jaxpr(names, [], [], names), consts))


def call_with_x(name, e):
    return e.call({"x": X, "w": (X.T,)})["s"] if name == "known" else e.call(X, X[0])


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.lamexp")), ids=lambda p: p.stem)
def test_files_of_earlier_versions(path):
    name = path.stem.partition("-")[0]
    e = deserialize(path.read_bytes())
    np.testing.assert_allclose(call_with_x(name, e), expected_result(name), rtol=1e-5)
    assert e._derivative is not None
    for order, end in enumerate([".values.lamina", ".vjp.values.lamina"]):
        stored, now = [evaluate(loads(data)) for data in (path.with_suffix(end).read_bytes(), values(name, e, order))]
        for got, want in zip(now, stored, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_corpus_has_files_of_this_version():
    for name, *_ in make_functions():
        assert (CORPUS / f"{name}-{__version__}.lamexp").exists(), f"lamina-export is at {__version__}: run python {__file__}"


def test_damaged_bytes_are_refused():
    for name, e, order in make_functions():
        data = bytes(e.serialize(vjp_order=order))
        np.testing.assert_allclose(call_with_x(name, deserialize(data)), expected_result(name), rtol=1e-5)
        draw = np.random.RandomState(0)
        for at in draw.randint(0, len(data), 60):
            changed = bytearray(data)
            changed[at] ^= 1 << draw.randint(8)
            with pytest.raises(ValueError, match="deserialize"):
                deserialize(changed)
        for end in draw.randint(0, len(data), 20):
            with pytest.raises(ValueError, match="deserialize"):
                deserialize(data[:end])
    with pytest.raises(TypeError, match="expected bytes"):
        deserialize("text")
    with pytest.raises(ValueError, match="vjp_order"):
        e.serialize(-1)


def test_changed_headers_are_refused():
    """With a valid checksum, no changed header raises anything but ValueError."""
    import hashlib
    import json

    from lamina_export.serialization import _HEAD, FORMAT, MAGIC
    data = bytes(next(e for name, e, _ in make_functions() if name == "symbolic").serialize())
    *_, n_header, n_program = _HEAD.unpack_from(data)
    body = data[_HEAD.size:]
    header = json.loads(body[:n_header])
    for key in header:
        for value in (None, 3, -1, "a", [], [1], {}, [["x"]], "a >= "):
            text = json.dumps({**header, key: value}).encode()
            new = text + body[n_header:]
            head = _HEAD.pack(MAGIC, FORMAT, 0, hashlib.sha256(new).digest(), len(text), n_program)
            try:
                deserialize(head + new).call(X, X[0])
            except ValueError:
                pass


class Pair(NamedTuple):
    x: object
    y: object


class Tagged:
    def __init__(self, tag, x):
        self.tag, self.x = tag, x

    def tree_flatten(self):
        return (self.x,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(tag, *children)


trees.register_pytree_node(Tagged, Tagged.tree_flatten, Tagged.tree_unflatten)


def test_pytrees_are_serialized():
    f = jit(lambda d: OrderedDict(z=d["a"][0], b=[None, (d[2],)] if 2 in d else ()))
    for arg in ({"a": (X,)}, OrderedDict(a=[X])):
        got = deserialize(export(f)(arg).serialize()).call(arg)
        assert list(got) == ["z", "b"] and np.array_equal(got["z"], X)
    e = export(jit(lambda p, t: Pair(t.x, Tagged(t.tag, p.x))))(Pair(X, X), Tagged("north", X))
    with pytest.raises(NotImplementedError, match="arguments or results: .*class Pair.*register_namedtuple_serialization"):
        e.serialize()
    register_namedtuple_serialization(Pair, serialized_name="test.Pair")
    register_pytree_node_serialization(Tagged, serialized_name="test.Tagged", serialize_auxdata=str.encode,
                                       deserialize_auxdata=bytes.decode)
    got = deserialize(e.serialize()).call(Pair(X, X), Tagged("north", X))
    assert type(got) is Pair and got.y.tag == "north"
    with pytest.raises(ValueError, match="structure"):
        e.call(Pair(X, X), Tagged("south", X))
    for again in ("test.Pair", "other"):
        with pytest.raises(ValueError, match="registered already"):
            register_namedtuple_serialization(Pair, serialized_name=again)
    with pytest.raises(ValueError, match="named tuples"):
        register_namedtuple_serialization(dict, serialized_name="d")
    with pytest.raises(NotImplementedError, match="must be strings or ints"):
        export(jit(lambda d: d))({1.5: X}).serialize()


if __name__ == "__main__":  # adds files of this version; never changes existing ones
    CORPUS.mkdir(exist_ok=True)
    for name, e, order in make_functions():
        files = {".lamexp": lambda: e.serialize(vjp_order=order), ".values.lamina": lambda: values(name, e, 0),
                 ".vjp.values.lamina": lambda: values(name, e, 1)}
        for end, data in files.items():
            path = CORPUS / f"{name}-{__version__}{end}"
            if not path.exists():
                path.write_bytes(data())
