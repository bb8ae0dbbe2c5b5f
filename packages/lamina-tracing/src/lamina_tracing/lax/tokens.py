"""Tokens, and the feeds for which they were made. Effects keep their order without them: see `ordered` of
`io_callback`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from typing_extensions import override
from lamina_ir import trees
from lamina_ir.typing import Value

__all__ = ["Token", "after_all", "create_token", "infeed", "outfeed"]


class Token:
    """A value without content, made by `create_token` and `after_all`. All tokens are alike; in trees it is a node
    without leaves, so it passes through every transformation."""

    def block_until_ready(self) -> Token:
        """The token itself: there is nothing to wait for."""
        return self

    @override
    def __repr__(self) -> str:
        return "Token()"

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is Token

    @override
    def __hash__(self) -> int:
        return hash(Token)


_TOKEN = Token()
trees.register_pytree_node(Token, lambda token: ((), None), lambda data, children: _TOKEN)


def create_token(_: object = None) -> Token:
    """Make a token.

    Args:
      _: ignored; accepted for compatibility.

    >>> create_token()
    Token()
    """
    return _TOKEN


def after_all(*operands: Token) -> Token:
    """Return one token for several.

    Raises:
      TypeError: an operand is no token.

    >>> after_all(create_token(), create_token())
    Token()
    """
    for i, token in enumerate(operands):
        if type(token) is not Token:
            raise TypeError(f"after_all: expected tokens, as made by create_token; got operand {i} of type "
                            f"{type(token).__name__}. To order computations use lax.optimization_barrier")
    return _TOKEN


def infeed(token: Token, shape: object = None, partitions: object = None) -> NoReturn:
    """Raise NotImplementedError: programs get values from the host through `io_callback`.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError("infeed: devices have no infeed queue here; get the value from the host "
                              "with lamina.experimental.io_callback(function, result_shape_dtypes, ordered=True)")


def outfeed(token: Token, xs: Sequence[Value], partitions: object = None) -> NoReturn:
    """Raise NotImplementedError: programs pass values to the host through `io_callback` or `debug.callback`.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError("outfeed: devices have no outfeed queue here; pass the values to a function on the host "
                              "with lamina.experimental.io_callback(function, None, xs, ordered=True)")
