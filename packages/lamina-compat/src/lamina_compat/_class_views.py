"""Classes of JAX as views of lamina's classes: `isinstance` accepts lamina's objects, calls make them."""
from __future__ import annotations

from abc import ABCMeta
from typing import Any, ClassVar, NoReturn

from typing_extensions import override

__all__ = ["ClassView", "Refusing"]


class ClassView(ABCMeta):
    """Metaclass of a view: `class View(metaclass=ClassView, of=Own)` has the instances and subclasses of `Own`.

    Subclasses of a view are usual classes.

    >>> class Number(metaclass=ClassView, of=(int, float)):
    ...     pass
    >>> isinstance(2, Number), issubclass(bool, Number), isinstance("2", Number)
    (True, True, False)
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any],
                of: type | tuple[type, ...] | None = None, **options: Any) -> Any:
        """Make the class."""
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls._viewed = of  # type: ignore[attr-defined]
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any],
                 of: type | tuple[type, ...] | None = None, **options: Any) -> None:
        super().__init__(name, bases, namespace)

    @override
    def __instancecheck__(cls, instance: Any) -> bool:
        viewed = cls._viewed  # type: ignore[attr-defined]
        return type.__instancecheck__(cls, instance) or viewed is not None and isinstance(instance, viewed)

    @override
    def __subclasscheck__(cls, subclass: type) -> bool:
        viewed = cls._viewed  # type: ignore[attr-defined]
        return type.__subclasscheck__(cls, subclass) or viewed is not None and issubclass(subclass, viewed)


class Refusing:
    """Base of classes without instances: a call raises `error` with `reason`.

    >>> class Token(Refusing):
    ...     reason = "lamina has no tokens"
    >>> Token()
    Traceback (most recent call last):
    NotImplementedError: Token: lamina has no tokens
    """

    error: ClassVar[type[Exception]] = NotImplementedError
    reason: ClassVar[str]

    def __init__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self.error(f"{type(self).__name__}: {self.reason}")
