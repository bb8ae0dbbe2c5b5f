"""`jax._src.pretty_printer`: documents that are laid out to a width, after Wadler, "A prettier printer" (2003).

A group is printed on one line if it fits; else its own breaks are line ends. Annotations are comments at the end of a line;
those of neighbouring lines are aligned.
"""
from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from typing_extensions import override

__all__ = ["Color", "Doc", "Intensity", "brk", "color", "concat", "group", "join", "keyword", "nest", "nil", "source_map",
           "text", "type_annotation"]


class Color(enum.Enum):
    """A color of the terminal; the value is the ANSI digit."""

    BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE, RESET = 0, 1, 2, 3, 4, 5, 6, 7, 9


class Intensity(enum.Enum):
    """A brightness of the terminal; the value is the ANSI code."""

    NORMAL, BRIGHT, DIM = 22, 1, 2


class _Style(NamedTuple):
    foreground: Color = Color.RESET
    background: Color = Color.RESET
    intensity: Intensity = Intensity.NORMAL


class Doc:
    """A document. `str(doc)` and `doc.format()` lay it out."""

    __slots__ = ()

    def format(self, width: int = 80, *, use_color: bool | None = None, annotation_prefix: str = " # ",
               source_map: list[list[tuple[int, int, Any]]] | None = None) -> str:
        """Return the text.

        Args:
          width: the largest number of columns, if the document has enough breaks.
          use_color: whether colors are written as ANSI codes; default: no.
          annotation_prefix: text before an annotation.
          source_map: a list to which (first column, last column, source) of each `source_map` is appended, one list per line.

        >>> args = join(concat([text(","), brk()]), [text("first"), text("second")])
        >>> call = group(concat([text("f("), nest(2, concat([brk(""), args])), brk(""), text(")")]))
        >>> print(call.format(width=10))
        f(
          first,
          second
        )
        >>> str(call)
        'f(first, second)'
        """
        return _Layout(width, bool(use_color), annotation_prefix).run(self, source_map)

    def __add__(self, doc: Doc) -> Doc:
        return concat([self, doc])

    @override
    def __str__(self) -> str:
        return self.format()


class _Text(Doc):
    __slots__ = ("value", "annotation")

    def __init__(self, value: str, annotation: str | None) -> None:
        self.value, self.annotation = value, annotation

    @override
    def __repr__(self) -> str:
        return f"text({self.value!r})" if self.annotation is None else f"text({self.value!r}, annotation={self.annotation!r})"


class _Concat(Doc):
    __slots__ = ("docs",)

    def __init__(self, docs: Sequence[Doc]) -> None:
        self.docs = list(docs)

    @override
    def __repr__(self) -> str:
        return f"concat({self.docs!r})"


class _Break(Doc):
    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    @override
    def __repr__(self) -> str:
        return f"brk({self.value!r})"


class _Wrapped(Doc):
    """A document with a property: `kind` is the name of the function that made it."""

    __slots__ = ("kind", "doc", "value")

    def __init__(self, kind: str, doc: Doc, value: Any = None) -> None:
        self.kind, self.doc, self.value = kind, doc, value

    @override
    def __repr__(self) -> str:
        return f"{self.kind}({'' if self.value is None else f'{self.value!r}, '}{self.doc!r})"


def nil() -> Doc:
    """Return the empty document."""
    return _Concat([])


def text(s: str, annotation: str | None = None) -> Doc:
    """Return a text without breaks; the annotation is a comment at the end of its line."""
    return _Text(s, annotation)


def concat(docs: Sequence[Doc]) -> Doc:
    """Return documents one after another."""
    return _Concat(docs)


def brk(text: str = " ") -> Doc:
    """Return a break: a line end if its group does not fit on one line, else `text`."""
    return _Break(text)


def nest(n: int, doc: Doc) -> Doc:
    """Return the document with its lines after the first indented by `n` more columns."""
    return _Wrapped("nest", doc, n)


def group(doc: Doc) -> Doc:
    """Return a document whose breaks are either all line ends, or none is; groups inside decide by themselves."""
    return _Wrapped("group", doc)


def join(sep: Doc, docs: Sequence[Doc]) -> Doc:
    """Return documents with a separator between them."""
    docs = list(docs)
    return _Concat([part for i, doc in enumerate(docs) for part in ((sep, doc) if i else (doc,))])


def color(doc: Doc, *, foreground: Color | None = None, background: Color | None = None,
          intensity: Intensity | None = None) -> Doc:
    """Return the document in a style; None keeps that of the document around it."""
    return _Wrapped("color", doc, (foreground, background, intensity))


def source_map(doc: Doc, source: Any) -> Doc:
    """Return the document, whose columns `Doc.format` reports as those of `source`."""
    return _Wrapped("source_map", doc, source)


type_annotation = functools.partial(color, intensity=Intensity.NORMAL, foreground=Color.MAGENTA)
keyword = functools.partial(color, intensity=Intensity.BRIGHT, foreground=Color.BLUE)

# (indentation, whether breaks are flat, style, document); for the end of a source, the document is a pair.
_Item: TypeAlias = tuple[int, bool, _Style, Any]
_PLAIN: Final = _Style()


class _Layout:
    """One run of the printer: the lines so far, and the column."""

    def __init__(self, width: int, use_color: bool, prefix: str) -> None:
        self.width, self.use_color, self.prefix = width, use_color, prefix
        self.column = 0
        self.style = _PLAIN
        self.line: list[str] = []
        self.notes: list[str] = []
        self.sources: list[tuple[int, int, Any]] = []
        self.lines: list[tuple[str, int, list[str]]] = []  # text, columns, annotations
        self.map: list[list[tuple[int, int, Any]]] = []

    def run(self, doc: Doc, source_map: list[list[tuple[int, int, Any]]] | None) -> str:
        todo: list[_Item] = [(0, False, _PLAIN, doc)]
        while todo:
            indent, flat, style, item = todo.pop()
            if isinstance(item, _Text):
                self.write(item.value, style)
                if item.annotation is not None:
                    self.notes.append(item.annotation)
            elif isinstance(item, _Concat):
                todo.extend((indent, flat, style, d) for d in reversed(item.docs))
            elif isinstance(item, _Break) and flat:
                self.write(item.value, style)
            elif isinstance(item, _Break):
                self.end_line()
                self.write(" " * indent, style)
            elif isinstance(item, _Wrapped):
                todo.extend(self.unwrap(indent, flat, style, item))
            else:
                column, source = item
                self.sources.append((column, self.column, source))
        self.end_line()
        if source_map is not None:
            source_map.extend(self.map)
        return "\n".join(_align(self.lines, self.prefix))

    def unwrap(self, indent: int, flat: bool, style: _Style, item: _Wrapped) -> list[_Item]:
        """Return the items that replace a wrapped document, the last one first."""
        if item.kind == "nest":
            return [(indent + item.value, flat, style, item.doc)]
        if item.kind == "group":
            first: _Item = (indent, True, style, item.doc)
            return [first if flat or self.fits(first) else (indent, False, style, item.doc)]
        if item.kind == "color":
            return [(indent, flat, _Style(*[new or old for new, old in zip(item.value, style)]), item.doc)]
        return [(indent, flat, style, (self.column, item.value)), (indent, flat, style, item.doc)]

    def fits(self, first: _Item) -> bool:
        """Return whether a flat item fits on the line."""
        space = self.width - self.column
        todo = [first]
        while todo and space >= 0:
            indent, flat, style, item = todo.pop()
            if isinstance(item, (_Text, _Break)):
                space -= len(item.value)
            elif isinstance(item, _Concat):
                todo.extend((indent, flat, style, d) for d in reversed(item.docs))
            elif isinstance(item, _Wrapped):
                todo.append((indent, flat, style, item.doc))
        return space >= 0

    def write(self, value: str, style: _Style) -> None:
        if self.use_color and style != self.style:
            self.line.append(_escape(self.style, style))
            self.style = style
        self.line.append(value)
        self.column += len(value)

    def end_line(self) -> None:
        if self.style != _PLAIN:
            self.line.append(_escape(self.style, _PLAIN))
            self.style = _PLAIN
        self.lines.append(("".join(self.line), self.column, self.notes))
        self.map.append(self.sources)
        self.line, self.notes, self.sources, self.column = [], [], [], 0


def _escape(old: _Style, new: _Style) -> str:
    """Return the ANSI code that changes the style."""
    codes = []
    if new.foreground is not old.foreground:
        codes.append(f"3{new.foreground.value}")
    if new.background is not old.background:
        codes.append(f"4{new.background.value}")
    if new.intensity is not old.intensity:
        codes.append(str(new.intensity.value))
    return f"\x1b[{';'.join(codes)}m"


def _align(lines: list[tuple[str, int, list[str]]], prefix: str) -> Iterator[str]:
    """Append the annotations to the lines; those of neighbouring annotated lines start at one column."""
    for annotated, block in itertools.groupby(lines, key=lambda line: bool(line[2])):
        block = list(block)
        widest = max(columns for _, columns, _ in block)
        for line, columns, notes in block:
            yield line + " " * (widest - columns) + "".join([prefix + note for note in notes]) if annotated else line
