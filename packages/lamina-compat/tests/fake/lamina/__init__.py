"""A package in place of lamina, for tests of the importer alone."""
devices = len
__all__ = ["devices"]
