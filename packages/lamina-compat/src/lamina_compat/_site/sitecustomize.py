"""Install lamina as `jax` in a child process of one that called `as_jax`; then run the next `sitecustomize`, if any."""
import importlib.machinery
import importlib.util
import os
import sys


def _run_next() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p) != here])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("LAMINA_AS_JAX"):
    try:
        from lamina_compat._importer import install
    except ImportError:  # another interpreter, without lamina
        pass
    else:
        install(os.environ["LAMINA_AS_JAX"])
_run_next()
