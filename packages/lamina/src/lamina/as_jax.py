"""`lamina.as_jax()` makes `import jax` import lamina; `pytest -p lamina.as_jax` does so for a test suite."""
import sys as _sys

from lamina_compat import CallableModule as _CallableModule, pytest_load_initial_conftests, pytest_terminal_summary

__all__: list[str] = []

# Callable, because pytest finds plugins as modules.
_sys.modules[__name__].__class__ = _CallableModule
