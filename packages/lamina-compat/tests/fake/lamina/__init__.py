"""A package in place of lamina, for tests of the importer alone."""
import sys


class ExplainAbsent:
    """Finder that explains an absent module, as that of lamina does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "lamina.planned":
            raise ModuleNotFoundError(f"No module named {name!r}: planned; use numpy", name=name)


sys.meta_path.append(ExplainAbsent)
devices = len
__all__ = ["devices"]
