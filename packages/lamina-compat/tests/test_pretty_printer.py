"""The printer of documents: layouts and codes that JAX's printer gives."""
import itertools

import pytest
from lamina_compat.names._src import pretty_printer as pp


def call(name, *args):
    comma = pp.concat([pp.text(","), pp.brk()])
    inside = pp.concat([pp.brk(""), pp.join(comma, args)])
    return pp.group(pp.concat([pp.text(f"{name}("), pp.nest(2, inside), pp.brk(""), pp.text(")")]))


@pytest.mark.parametrize("width, wanted", [(80, "f(aaaa, bbbb)"), (13, "f(aaaa, bbbb)"), (12, "f(\n  aaaa,\n  bbbb\n)"),
                                           (1, "f(\n  aaaa,\n  bbbb\n)")])
def test_a_group_is_on_one_line_if_it_fits(width, wanted):
    assert call("f", pp.text("aaaa"), pp.text("bbbb")).format(width=width) == wanted


def test_groups_inside_decide_by_themselves():
    doc = call("f", call("g", pp.text("a"), pp.text("b")), pp.text("cccccc"))
    assert doc.format(width=12) == "f(\n  g(a, b),\n  cccccc\n)"
    assert doc.format(width=8) == "f(\n  g(\n    a,\n    b\n  ),\n  cccccc\n)"


def test_only_the_group_itself_must_fit():
    doc = pp.concat([pp.group(pp.concat([pp.text("aa"), pp.brk(), pp.text("bb")])), pp.text("cccc"), pp.brk(), pp.text("d")])
    assert doc.format(width=6) == "aa bbcccc\nd"


def test_breaks_outside_of_groups_are_line_ends():
    assert pp.nest(4, pp.concat([pp.text("a"), pp.brk(), pp.text("b")])).format() == "a\n    b"


def test_annotations_are_aligned_per_block():
    lines = [("x", "n1"), ("yyyyyyy", "n2"), ("plain", None), ("zz", "n3")]
    doc = pp.join(pp.brk(), [pp.text(text, annotation) for text, annotation in lines])
    assert doc.format() == "x       # n1\nyyyyyyy # n2\nplain\nzz # n3"
    assert (pp.text("x") + pp.text(" y", annotation="note")).format(annotation_prefix=" // ") == "x y // note"


def test_colors_are_codes_if_asked_for():
    red = pp.color(pp.concat([pp.text("x"), pp.color(pp.text("i"), foreground=pp.Color.GREEN), pp.text("z")]),
                   foreground=pp.Color.RED)
    assert (red + pp.text("o")).format(use_color=True) == "\x1b[31mx\x1b[32mi\x1b[31mz\x1b[39mo"
    assert pp.color(pp.text("x"), foreground=pp.Color.RED, intensity=pp.Intensity.BRIGHT).format(
        use_color=True) == "\x1b[31;1mx\x1b[39;22m"
    assert pp.color(pp.text("x"), background=pp.Color.BLUE).format(use_color=True) == "\x1b[44mx\x1b[49m"
    assert (red + pp.text("o")).format() == str(red + pp.text("o")) == "xizo"
    assert pp.keyword(pp.text("let")).format(use_color=False) == "let"


def test_columns_of_sources_are_reported_per_line():
    found = []
    doc = pp.concat([pp.text("ab"), pp.source_map(pp.text("cd"), "S"), pp.brk(), pp.source_map(pp.text("e"), "T")])
    assert doc.format(source_map=found) == "abcd\ne" and found == [[(2, 4, "S")], [(0, 1, "T")]]


def test_empty_documents():
    assert str(pp.nil()) == str(pp.concat([])) == str(pp.join(pp.text(","), [])) == ""
    assert pp.text("a\nb").format() == "a\nb"


def test_documents_show_how_they_were_made():
    assert repr(pp.group(pp.nest(2, pp.text("a") + pp.brk()))) == "group(nest(2, concat([text('a'), brk(' ')])))"
    assert repr(pp.text("a", annotation="b")) == "text('a', annotation='b')"


def test_deep_documents_need_no_recursion():
    doc = pp.text("x")
    for _ in range(5000):
        doc = pp.group(pp.nest(1, pp.concat([pp.text("("), doc, pp.text(")")])))
    assert doc.format(width=20) == "(" * 5000 + "x" + ")" * 5000


def test_lines_are_within_the_width_if_texts_are():
    leaf = [pp.text("a"), pp.text("bbbb"), pp.text("cc")]
    docs = [call("f", *args) for args in itertools.product(leaf, repeat=2)]
    docs += [call("g", *args) for args in itertools.product(docs[:3], leaf)]
    for doc, width in itertools.product(docs, range(12, 30)):
        text = doc.format(width=width)
        # A comma after an inner group does not count.
        assert all(len(line.removesuffix(",")) <= width for line in text.split("\n"))
        assert ("\n" in text) == (len(str(doc)) > width)
        assert "".join(text.split()) == "".join(str(doc).split())
