"""`jax._src.config`: the settings; `config` is the object of `jax.config`."""
from lamina_ir import config

__all__ = ["config"]


def __getattr__(name: str) -> object:
    return getattr(config, name)
