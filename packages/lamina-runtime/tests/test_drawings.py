"""Drawings of shards on devices, also for large meshes."""
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from lamina_ir.extend import Tiles
from lamina_parallel import Mesh
from lamina_parallel.testing import fake_devices
from lamina_runtime._sharding import drawing
from lamina_runtime.plans import format_bytes

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("shape", [(8,), (4, 2), (2, 2, 2), (64,), (8, 8), (512,), (64, 4, 2)])
def test_drawings_of_any_mesh_size(shape):
    devices = fake_devices(int(np.prod(shape)))
    n = len(devices)
    mesh = Mesh(np.array(devices, object).reshape(shape), tuple("xyz"[:len(shape)]))
    every = [("rows", "f32", (2 * n, 4), Tiles((n, 1))), ("cells", "f32", (n, 4), Tiles((n // 2, 2))),
             ("copies", "f32", (4,), Tiles((2,), n // 2)), ("whole", "f32", (), Tiles()),
             ("deep", "f32", (n, 2, 3), Tiles((n // 2, 2, 1)))]
    drawn = [(name, kind, drawing.block_holders(of, tiles, devices)) for name, kind, of, tiles in every]
    text = drawing.draw_mesh_and_arrays("a title", mesh, [("arguments", drawn), ("results", [])])
    root = ElementTree.fromstring(text)
    wide, high = float(root.get("width")), float(root.get("height"))
    assert wide <= 1100 and high <= 3000 and len(text) < 1_000 * n + 50_000
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"a title", "arguments", "rows", "cells", "copies", "whole", "deep"} <= {*texts} and "results" not in texts
    for block, held in drawn[2][2].items():
        assert drawing.format_holders(held) in texts and drawing.format_block(block) in texts
    colours = set(re.findall(r"hsl\([^)]*\)", text))
    assert len(colours) == n


def test_block_holders():
    devices = fake_devices(4)
    assert drawing.block_holders((4, 6), Tiles((2, 2), 1, (3, 2, 1, 0)), devices) == {
        ((0, 2), (0, 3)): (devices[3],), ((0, 2), (3, 6)): (devices[2],), ((2, 4), (0, 3)): (devices[1],),
        ((2, 4), (3, 6)): (devices[0],)}
    assert drawing.block_holders((), Tiles(), devices) == {(): tuple(devices)}


def test_block_tables_follow_the_split_dimensions():
    blocks = drawing.block_holders((4, 6, 8, 3), Tiles((2, 3, 2, 1)), fake_devices(12))
    found = drawing.block_tables(blocks)
    assert [(name, len(rows), len(rows[0])) for name, rows in found] == [("[0:2, :, :, 0:3]", 3, 2), ("[2:4, :, :, 0:3]", 3, 2)]
    assert [block for _, rows in found for row in rows for block in row] == list(blocks)
    for shape, counts, (down, across) in (((4,), (2,), (1, 2)), ((4, 2), (2, 1), (2, 1)), ((4, 2), (1, 2), (1, 2)),
                                          ((4, 2, 2), (4, 1, 2), (4, 2)), ((4, 2, 2), (4, 1, 1), (4, 1)), ((), (), (1, 1))):
        (name, rows), = drawing.block_tables(drawing.block_holders(shape, Tiles(counts), fake_devices(int(np.prod(counts)))))
        assert (name, len(rows), len(rows[0])) == ("", down, across)


@pytest.mark.parametrize("ids, texts", [
    ([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([3, 2, 1], "3,2,1"), (range(512), "0-511"), (range(0, 64, 2), "0,2,4,...,62 (32)")])
def test_format_ids(ids, texts):
    assert drawing.format_ids(list(ids)) == texts


def test_format_devices_of_several_processes():
    assert drawing.format_devices(fake_devices(4, 2)) == "cpu:0,1 of process 0, cpu:2,3 of process 1"
    assert drawing.format_devices(fake_devices(64, 32)).count("process") == 4


@pytest.mark.parametrize("n, texts", [
    (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1 GiB"), (10 ** 18, "888.2 PiB")])
def test_format_bytes(n, texts):
    assert format_bytes(n) == texts
