"""The version, set by `hatch version`, and the required versions of sibling packages (`tools/check_ranges.py --write`)."""

__version__ = "0.1.0"
