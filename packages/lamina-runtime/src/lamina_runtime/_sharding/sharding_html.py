"""Show a sharding as HTML: its mesh and spec, and a drawing of which device holds which block."""
from __future__ import annotations

from lamina_ir.extend import html
from lamina_ir.typing import Sharding

from . import drawing, shardings

__all__ = ["placement_text", "sharding_html"]

_MAX_TEXT = 300


def placement_text(sharding: Sharding) -> str:
    """Return where the arrays of a sharding are: the device, or the sharding."""
    if sharding.num_devices == 1:
        return str(shardings.sharding_devices(sharding)[0])
    text = repr(sharding)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def sharding_html(sharding: Sharding) -> str:
    """Return the HTML of a sharding."""
    devices = shardings.sharding_devices(sharding)
    facts = []
    if sharding._mesh is not None:
        facts += [("mesh", repr(sharding._mesh)), ("spec", repr(sharding._spec))]
    facts.append(("devices", f"{len(devices)}: {drawing.format_devices(devices)}"))
    if not sharding.is_fully_addressable:
        facts.append(("this process", f"{len(sharding.addressable_devices)} devices"))
    if len(devices) == 1:
        return html.fact_box(_kind(sharding), facts)
    tiles = sharding.tiles
    facts.append(("blocks", "1, a copy on each device" if tiles.is_replicated else " x ".join(map(str, tiles.counts))))
    held = drawing.block_holders(tiles.counts, tiles, devices)  # of an array with one element in each block
    return html.fact_box(_kind(sharding), facts, drawing.embed_svg(drawing.draw_array("", held, _block_name)))


def _block_name(block: drawing.Block) -> str:
    return f"block {', '.join([str(begin) for begin, _ in block])}" if block else "all"


def _kind(sharding: Sharding) -> str:
    return repr(sharding).partition("(")[0]
