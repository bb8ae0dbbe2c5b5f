"""The version, set by `hatch version`, and the neighbours it works with, as tools/check_ranges.py writes them."""

__version__ = "0.1.0"
