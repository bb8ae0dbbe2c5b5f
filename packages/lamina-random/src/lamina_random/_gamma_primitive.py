"""The op of gamma draws, for programs that bind it by its name."""
from __future__ import annotations

from typing_extensions import override
from lamina_tracing import Array, ArrayLike

from ._gamma import gamma, loggamma

__all__ = ["random_gamma_p"]


class _GammaOp:
    """Stands for an op `random_gamma`. Programs hold no such op: a gamma draw is written with others, as all draws are."""

    name = "random_gamma"
    multiple_results = False

    def bind(self, key: ArrayLike, a: ArrayLike, *, log_space: bool = False) -> Array:
        """Draw gamma numbers.

        Args:
          key: one key, typed or words.
          a: shape parameters.
          log_space: whether to give logarithms.
        Returns:
          Float array of the shape of `a`: `loggamma(key, a)` or `gamma(key, a)`.
        Raises:
          ShapeError: `key` is not one key.

        >>> from lamina_random import PRNGKey
        >>> bool(random_gamma_p.bind(PRNGKey(0), 2.0) == gamma(PRNGKey(0), 2.0))
        True
        """
        return (loggamma if log_space else gamma)(key, a)

    @override
    def __repr__(self) -> str:
        return self.name


random_gamma_p = _GammaOp()
