"""A plugin of pytest: jaxlib cannot be imported, as on a machine that has none."""
import sys


class _Refusing:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] in ("jax", "jaxlib"):
            raise ModuleNotFoundError(f"{name} is not here: this run has no jaxlib", name=name)


sys.meta_path.insert(0, _Refusing())  # type: ignore[arg-type]
