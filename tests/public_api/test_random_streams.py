"""A seed gives the numbers of JAX 0.4.30, and with `threefry_partitionable` or `as_jax("0.10")` those since JAX 0.5.

`NUMBERS` contains the CRC-32 of JAX's numbers for each draw in the classic and the partitionable stream. They are the
same in JAX 0.4.30, 0.10.2 and 0.12.0. `python test_random_streams.py jax` in an environment with JAX prints the table.
"""
import os
import subprocess
import sys
import zlib
from importlib import import_module

import numpy as np

if __name__ != "__main__":  # an environment with JAX has neither
    import lamina
    import lamina.export
    import pytest
    from lamina import config, random

SHAPES = [(), (1,), (2,), (3,), (5,), (8,), (33,), (4, 9), (3, 5), (2, 3, 4), (3, 0), (1001,), (7, 11, 13)]


def draw_uint(name):
    return lambda r, k, s: r.bits(k, s, np.dtype(name))


# name -> draw(random, key, shape). Draws of normal numbers are in `test_jax_numbers`: their last bit depends on the CPU.
DRAWS = {
    **{f"bits {n}": draw_uint(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"uniform {n}": lambda r, k, s, n=n: r.uniform(k, s, np.dtype(f"float{n}")) for n in (16, 32, 64)},
    **{f"randint {n}": lambda r, k, s, n=n: r.randint(k, s, -100, 1001, np.dtype(f"int{n}")) for n in (32, 64)},
    "split": lambda r, k, s: r.split(k, s or 2),
    "split typed": lambda r, k, s: r.key_data(r.split(r.wrap_key_data(k), s or 2)),
    "fold_in": lambda r, k, s: r.fold_in(k, np.uint32(2 ** 32 - 1 - sum(s))),
    "permutation": lambda r, k, s: r.permutation(k, 3 + sum(s)),
    "permutation of rows": lambda r, k, s: r.permutation(k, np.arange(60).reshape(12, 5), axis=len(s) % 2),
    "bernoulli": lambda r, k, s: r.bernoulli(k, 0.3, s),
    "choice": lambda r, k, s: r.choice(k, 17, s),
    "choice without replacement": lambda r, k, s: r.choice(k, 50, s[:1], replace=False) if s[:1] <= (8,) else k,
    "rademacher": lambda r, k, s: r.rademacher(k, s, np.dtype("int32")),
}
# draw -> the checksums of the classic stream and of the partitionable one
NUMBERS = {
    "bits 8": ("8f6c723b", "6ebfbc7e"),
    "bits 16": ("10a3dd48", "38299764"),
    "bits 32": ("bb970fc9", "bf964461"),
    "bits 64": ("7fea90d4", "cfb5fb37"),
    "uniform 16": ("883015b0", "c0ca9815"),
    "uniform 32": ("b5bae5f7", "987fb0a7"),
    "uniform 64": ("310476c6", "7f68b7a4"),
    "randint 32": ("4c19398c", "db3a331c"),
    "randint 64": ("159b37f8", "2255b40d"),
    "split": ("fbd3930d", "e784a416"),
    "split typed": ("fbd3930d", "e784a416"),
    "fold_in": ("93dbb55e", "93dbb55e"),
    "permutation": ("39b5c307", "0fcdac58"),
    "permutation of rows": ("552fb0a8", "65b6850a"),
    "bernoulli": ("c66b0624", "bfa07771"),
    "choice": ("d26d4aa2", "798d5e48"),
    "choice without replacement": ("12416fba", "71f561f9"),
    "rademacher": ("9b37fdb5", "4023b369"),
}


def checksum(r, draw):
    """Return the CRC-32 of the draws of all shapes, with their dtypes and shapes."""
    crc = 0
    for i, shape in enumerate(SHAPES):
        x = np.asarray(draw(r, r.fold_in(r.PRNGKey(42), i), shape))
        crc = zlib.crc32(f"{x.dtype}{x.shape}".encode() + np.ascontiguousarray(x).tobytes(), crc)
    return f"{crc:08x}"


def print_numbers(name):
    system = import_module(name)
    r = import_module(name + ".random")
    system.config.update("jax_enable_x64", True)
    for draw, function in DRAWS.items():
        found = []
        for on in (False, True):
            system.config.update("jax_threefry_partitionable", on)
            found.append(checksum(r, function))
        print(f'    "{draw}": ("{found[0]}", "{found[1]}"),')


def first_bits():
    return np.asarray(random.bits(random.PRNGKey(42), (2,))).tolist()


CLASSIC, PARTITIONABLE = [64467757, 2916123636], [2098992034, 2919706841]


def pytest_generate_tests(metafunc):
    if "draw" in metafunc.fixturenames:
        metafunc.parametrize("draw", DRAWS)
    if "partitionable" in metafunc.fixturenames:
        metafunc.parametrize("partitionable", [False, True])


def test_numbers_are_those_of_jax(draw, partitionable):
    with config.enable_x64(True), config.threefry_partitionable(partitionable):
        assert checksum(random, DRAWS[draw]) == NUMBERS[draw][partitionable]


def test_default_is_the_classic_stream():
    assert not config.threefry_partitionable.value and first_bits() == CLASSIC


def test_as_jax_selects_the_stream_of_a_release():
    before = config.read("threefry_partitionable")
    try:
        for level, numbers in (("0.10", PARTITIONABLE), ("0.4.30", CLASSIC), ("0.5", PARTITIONABLE), ("0.4.38", CLASSIC),
                               ("0.12.0.1", PARTITIONABLE)):
            config.as_jax(level)
            assert first_bits() == numbers
            with config.threefry_partitionable(numbers is CLASSIC):  # a block takes precedence
                assert first_bits() != numbers
    finally:
        config.update("threefry_partitionable", before)


def test_top_level_as_jax_selects_the_stream_at_once():
    code = ("import lamina\nbefore = lamina.config.read('threefry_partitionable')\nlamina.as_jax('0.10')\n"
            "print(before, lamina.config.read('threefry_partitionable'))\nimport jax\nprint(jax.__version__)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "0.10.2"]


def test_as_jax_refuses_unknown_levels():
    for level in ("0.4.29", "0.13", "1.0", "0.4", "", "newest"):
        with pytest.raises(ValueError, match='as_jax: level must be a version of JAX from "0.4.30"'):
            config.as_jax(level)
    with pytest.raises(TypeError, match="as_jax: level must be a string"):
        config.as_jax(0.10)
    assert first_bits() == CLASSIC


def test_environment_selects_the_stream():
    code = "import lamina; print(*lamina.random.bits(lamina.random.PRNGKey(42), (2,)).tolist())"
    for name in ("LAMINA_THREEFRY_PARTITIONABLE", "JAX_THREEFRY_PARTITIONABLE"):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, name: "1"}, capture_output=True, text=True,
                              timeout=120)
        assert done.stdout.split() == [str(n) for n in PARTITIONABLE], done.stderr


def test_compiled_functions_follow_the_setting():
    jitted = lamina.jit(lambda key: random.bits(key, (2,)))
    mapped = lamina.vmap(lambda key: random.bits(key, (2,)))
    looped = lamina.jit(lambda key: lamina.lax.scan(lambda c, x: (c, random.bits(x, (2,))), 0, key[None])[1])
    key = random.PRNGKey(42)
    for _ in range(2):
        for on in (False, True):
            with lamina.threefry_partitionable(on):
                for numbers in (jitted(key), mapped(key[None])[0], looped(key)[0]):
                    assert np.asarray(numbers).tolist() == (PARTITIONABLE if on else CLASSIC)


def test_saved_programs_keep_the_stream_they_were_traced_with():
    key, draw = random.PRNGKey(42), lamina.jit(lambda key: random.bits(key, (2,)))
    with lamina.threefry_partitionable(True):
        compiled, traced = draw.lower(key).compile(), lamina.make_jaxpr(draw)(key)
        saved = lamina.export.export(draw)(key).serialize()
    assert np.asarray(compiled(key)).tolist() == PARTITIONABLE
    assert np.asarray(lamina.export.deserialize(saved).call(key)).tolist() == PARTITIONABLE
    assert np.asarray(lamina.extend.core.jaxpr_as_fun(traced)(key)[0]).tolist() == PARTITIONABLE
    assert np.asarray(draw(key)).tolist() == CLASSIC


@pytest.mark.parametrize("shape, axes", [((8, 6), ("a", "b")), ((16,), (("a", "b"),)), ((24, 5), ("b",)),
                                         ((4, 8), (None, "a")), ((8, 3, 7), ("a",))])
def test_sharded_draws_are_those_of_one_device(shape, axes, partitionable):
    mesh = lamina.make_mesh((4, 2), ("a", "b"))
    sharding = lamina.NamedSharding(mesh, lamina.sharding.PartitionSpec(*axes))
    key = random.key(3)
    draws = [lambda k, n=n: random.bits(k, shape, f"uint{n}") for n in (8, 16, 32)]
    draws += [lambda k: random.uniform(k, shape), lambda k: random.randint(k, shape, 0, 1000),
              lambda k: random.key_data(random.split(k, shape))[..., 0], lambda k: random.bernoulli(k, 0.3, shape)]
    with lamina.threefry_partitionable(partitionable):
        for draw in draws:
            shards = lamina.jit(draw, out_shardings=sharding)(key)
            assert len(shards.sharding.device_set) == 8
            np.testing.assert_array_equal(shards, draw(key))


def test_mapped_draws_over_devices_are_those_of_each_key(partitionable):
    with lamina.threefry_partitionable(partitionable):
        keys = random.split(random.PRNGKey(3), 8)
        wanted = np.stack([random.uniform(key, (5, 3)) for key in keys])
        mesh, spec = lamina.make_mesh((8,), "x"), lamina.sharding.PartitionSpec("x")
        body = lamina.shard_map(lambda k: random.uniform(k[0], (5, 3))[None], mesh=mesh, in_specs=spec, out_specs=spec)
        np.testing.assert_array_equal(lamina.pmap(lambda k: random.uniform(k, (5, 3)))(keys), wanted)
        np.testing.assert_array_equal(body(keys), wanted)


if __name__ == "__main__":
    print_numbers(sys.argv[1])
