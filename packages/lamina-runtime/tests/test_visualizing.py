"""Text and SVG drawings of shardings."""
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from lamina_parallel import PartitionSpec as P, pmap
from lamina_runtime import NamedSharding, device_put, make_mesh
from lamina_runtime.visualizing import visualize, visualize_array_sharding, visualize_sharding
from lamina_tracing import jit

MESH = make_mesh((2, 2), ("x", "y"))


def put(shape, *entries):
    return device_put(np.zeros(shape), NamedSharding(MESH, P(*entries)))


@pytest.mark.parametrize("shape, spec, text", [
    ((4, 2), P("x", "y"), """\
┌───────┬───────┐
│ CPU 0 │ CPU 1 │
├───────┼───────┤
│ CPU 2 │ CPU 3 │
└───────┴───────┘
"""),
    ((4,), P("y"), """\
┌─────────┬─────────┐
│ CPU 0,2 │ CPU 1,3 │
└─────────┴─────────┘
"""),
    ((), P(), """\
┌─────────┐
│ CPU 0-3 │
└─────────┘
"""),
    ((4, 3, 2), P("x", None, "y"), """\
┌───────┬───────┐
│ CPU 0 │ CPU 1 │
├───────┼───────┤
│ CPU 2 │ CPU 3 │
└───────┴───────┘
"""),
    ((2, 4, 3), P(None, ("y", "x")), """\
┌───────┐
│ CPU 0 │
├───────┤
│ CPU 2 │
├───────┤
│ CPU 1 │
├───────┤
│ CPU 3 │
└───────┘
""")])
def test_box_drawings(shape, spec, text, capsys):
    x = put(shape, *spec)
    visualize_array_sharding(x)
    visualize_sharding(shape, NamedSharding(MESH, spec), use_color=False)
    assert capsys.readouterr().out == 2 * text
    picture = visualize(x)
    assert f"{picture}\n" == f"{x.aval.str_long()} on {x.sharding}\n{text}"
    drawing = ElementTree.fromstring(picture._repr_svg_())
    texts = [t.text for t in drawing.iter("{http://www.w3.org/2000/svg}text")]
    for shard in x.addressable_shards:
        place = "[" + ", ".join("{}:{}".format(*i.indices(n)) for i, n in zip(shard.index, shape)) + "]"
        i = texts.index(place, texts.index(place) + 1 if texts.count(place) > 1 else 0)
        assert str(shard.device.id) in texts[i - 1] or "0-3" in texts[i - 1]
    assert "<svg" in picture._repr_html_() and 'fill="#fff"/>' not in picture._repr_html_()


def test_drawing_of_a_pmap_result(capsys):
    visualize_array_sharding(pmap(lambda r: r)(np.zeros((2, 3))))
    assert capsys.readouterr().out.count("CPU") == 2


def test_invalid_arguments_are_refused():
    with pytest.raises(TypeError, match="expected an array on devices; got ndarray"):
        visualize(np.zeros(3))
    with pytest.raises(TypeError, match="Inside jit"):
        jit(lambda x: visualize_array_sharding(x))(1.0)
    with pytest.raises(TypeError, match="expected a sharding.*got PartitionSpec"):
        visualize_sharding((4,), P("x"))
    with pytest.raises(ValueError, match="dimension 0 .* length 3"):
        visualize_sharding((3,), NamedSharding(MESH, P("x")))
