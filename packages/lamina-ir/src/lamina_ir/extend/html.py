"""HTML of values for notebooks: a box of facts, and a heat map of sampled elements. Imported on first use.

>>> from lamina_ir.extend.html import fact_box
>>> fact_box("float32[2]", [("bytes", 8)])[:4]
'<div'
"""
from .._util.html import escape_html, fact_box, heat_map, sample_slices, sampled_positions, text_block, text_table

__all__ = ["escape_html", "fact_box", "heat_map", "sample_slices", "sampled_positions", "text_block", "text_table"]
