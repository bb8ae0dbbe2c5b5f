"""HTML of values for notebooks: escaped text, bounded size, marks of NaN and infinities, positions of samples."""
import xml.etree.ElementTree as ElementTree

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import parse
from lamina_ir.extend import html


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{text}</div>")


def test_text_is_escaped_and_no_script_is_used():
    text = html.fact_box("<b>&", [("<i>", "\"'<script>")], html.text_block("a<b"), html.text_table([["<td>"]], "<n>"))
    parsed(text)
    assert "<b>" not in text and "<i>" not in text and "<script" not in text and "<n>" not in text


@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (1000,), (40, 3), (5, 6, 7), (2, 3, 4, 64)])
def test_samples_are_at_most_32_by_32_elements_that_cover_the_range(shape):
    slices = html.sample_slices(shape)
    found = np.empty(shape)[slices].shape
    assert all(n <= 32 for n in found[-2:]) and all(n == 1 for n in found[:-2])
    assert all(s.step * n >= of for s, n, of in zip(slices[-2:], found[-2:], shape[-2:]))


@pytest.mark.parametrize("n, parts", [(10, 3), (100, 7), (97, 8), (64, 64)])
def test_sampled_positions_of_parts_are_the_whole_sample(n, parts):
    x, (sample,) = np.arange(n), html.sample_slices((n,))
    expected = x[sample]
    found = np.full(expected.shape, -1)
    size = -(-n // parts)
    for begin in range(0, n, size):
        part = slice(begin, min(begin + size, n))
        at = html.sampled_positions(part, sample)
        if at is not None:
            found[at[0]] = x[part][at[1]]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64", ml_dtypes.bfloat16,
                                   ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_heat_maps_of_every_kind_of_dtype(dtype):
    text = html.heat_map(np.arange(6).reshape(2, 3).astype(dtype), (2, 3))
    paths = [e.get("fill") for e in parsed(text).iter() if e.tag.endswith("path")]
    assert len(paths) == (2 if dtype == "bool" else 6) and ("5 of 6 true" if dtype == "bool" else "0 to 5") in text


def test_heat_map_marks_values_that_are_not_finite_or_not_here():
    values = np.array([[1, np.nan, np.inf], [-np.inf, np.nan, 2]])
    text = html.heat_map(values, (2, 3), np.array([[True] * 3, [True, True, False]]))
    assert "all 1; 1 elsewhere (dot); 2 NaN (cross); 1 inf (plus); 1 -inf (minus)" in text
    parsed(html.heat_map(np.full((2, 2), np.nan), (2, 2)))


def test_heat_map_of_the_largest_floats_has_two_colours():
    largest = np.finfo(np.float64).max
    for values in ([largest, -largest], [largest, 0.0], [5e-324, 0.0]):
        assert html.heat_map(np.array(values), (2,)).count("<path") == 2


def test_size_of_html_is_bounded():
    assert len(html.heat_map(np.random.default_rng(0).normal(size=(32, 32)), (10**6, 10**6))) < 25_000
    assert "more lines" in html.text_block("x\n" * 10**5) and len(html.text_block("x\n" * 10**5)) < 2_000
    assert "more rows" in html.text_table([["x"] * 100] * 100)


def test_programs_show_their_types_and_text():
    program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    for shown in (program, program.jaxpr):
        text = shown._repr_html_()
        parsed(text)
        assert type(shown).__name__ in text and "f32[3]" in text and "b:f32[3] = sin a" in text
