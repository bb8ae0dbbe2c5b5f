"""Programs: `Jaxpr` (variables, equations, results) and `ClosedJaxpr` (a Jaxpr with its constants).

A program is a straight list of equations in single-assignment form. Variables are objects; names exist only in printed
text. Nested programs are params of equations, as `ClosedJaxpr` (see `Primitive.subprograms`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar, final

from typing_extensions import override

from .. import config
from .._util.short_repr import short_repr
from .._types.avals import ShapedArray
from .effect_types import Effect, EqnContext, primitive_effects
from ..errors import ProgramError
from .primitive import Primitive
from .source_info import Source
from ..typing import AxisName, CacheKey, Params, Value
from .._util.former_names import former_attributes

__all__ = ["Atom", "ClosedJaxpr", "DropVar", "Eqn", "Jaxpr", "Literal", "Source", "Var", "eqn_axis_names",
           "eqn_has_effects", "find_axis_names", "subprograms"]


_T = TypeVar("_T")
_get_aval, _get_primitive = attrgetter("aval"), attrgetter("primitive")
_text: Callable[..., str] = object.__repr__


def set_printer(text: Callable[..., str]) -> None:
    """Set the function that prints programs and equations. `printer` calls this; importing it here would be a cycle."""
    global _text
    _text = text


def _html(jaxpr: Jaxpr, title: str) -> str:
    """Return a program as HTML: its types and effects, and its text."""
    from .._util import html  # noqa: PLC0415 (on demand: only notebooks need it)
    facts = [("arguments", _join_types(jaxpr.in_avals)), ("results", _join_types(jaxpr.out_avals)),
             ("constants", _join_types([v.aval for v in jaxpr.constvars])), ("equations", str(len(jaxpr.eqns))),
             ("effects", ", ".join(sorted(map(str, jaxpr.effects))))]
    return html.fact_box(title, [(name, text) for name, text in facts if text], html.text_block(_text(jaxpr)))


def _join_types(avals: Sequence[ShapedArray]) -> str:
    texts = [aval.str_short() for aval in avals[:_MAX_TYPES]]
    return ", ".join([*texts, f"and {len(avals) - _MAX_TYPES} more"] if len(avals) > _MAX_TYPES else texts)


_MAX_TYPES = 12
_CONTEXT = EqnContext()
_PRETTY = frozenset(("source_info", "print_shapes", "name_stack", "custom_pp_eqn_rules", "print_effects", "use_color", "width",
                     "weak"))


def _pretty(program: Jaxpr | ClosedJaxpr, options: dict[str, object]) -> str:
    unknown = options.keys() - _PRETTY
    if unknown:
        raise TypeError(f"pretty_print: there is no option {', '.join(sorted(unknown))}; expected {', '.join(sorted(_PRETTY))}")
    for name, value in (("print_shapes", True), ("name_stack", False), ("print_effects", False)):
        if options.get(name, value) is not value:
            raise ValueError(f"pretty_print: {name}={options[name]} is not supported: the text of a program contains "
                             f"types and nothing else, so that it parses back to the same program. Omit {name}")
    return _text(program, weak=bool(options.get("weak")), sources=bool(options.get("source_info")))


class Var:
    """A variable, compared by identity."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    count = property(id, doc="A number that is unique among live variables.")
    suffix = ""

    @override
    def __repr__(self) -> str:
        return f"Var({self.aval.str_short()})"


class DropVar(Var):
    """An unused result; printed `_`."""

    __slots__ = ()


@final
class Literal:
    """A scalar in the program text. `val` is a Python or NumPy scalar or 0-d array; `aval` is its type."""

    __slots__ = ("val", "aval")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val = val
        self.aval = aval

    @property
    def hash(self) -> int | None:
        """The hash of the value; None if it is not hashable."""
        try:
            return hash(self.val)
        except TypeError:
            return None

    @override
    def __repr__(self) -> str:
        return f"Literal({self.val!r}, {self.aval.str_short()})"


Atom = Var | Literal


class Eqn:
    """`outvars = primitive[params] invars`."""

    __slots__ = ("primitive", "invars", "outvars", "params", "source")

    def __init__(self, primitive: Primitive, invars: Sequence[Atom], outvars: Sequence[Var], params: Params,
                 source: Source | None = None) -> None:
        self.primitive = primitive
        self.invars = invars
        self.outvars = outvars
        self.params = params
        self.source = source

    def replace(self, **changes: Any) -> Eqn:
        """Return a copy with some fields changed. `source_info` is an alias of `source`; effects cannot be set."""
        fields = {name: getattr(self, name) for name in Eqn.__slots__}
        if "source_info" in changes:
            changes["source"] = changes.pop("source_info")
        changes.pop("ctx", None)
        if changes.pop("effects", None) not in (None, self.effects):
            raise ValueError("replace: effects are determined by the primitive and its nested programs; replace those")
        fields.update(changes)
        return Eqn(**fields)

    ctx = property(lambda self: _CONTEXT, doc="The settings of the equation, see `EqnContext`.")
    source_info = property(lambda self: self.source, doc="The source line: alias of `source`.")

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects of the primitive and of nested programs."""
        own = primitive_effects(self.primitive.name, self.params) if self.primitive.effectful else frozenset()
        return own.union(*[s.effects for s in subprograms(self)])

    @override
    def __repr__(self) -> str:
        return _text(self)


class Jaxpr:
    """A program with free constants.

    Args:
      constvars: variables bound to constants.
      invars: variables bound to arguments.
      eqns: equations in order; each variable is bound once, before it is read.
      outvars: results: variables or literals.
      axis_names: names of mapped axes that collectives inside refer to and that are not bound inside.
      effectful: whether an equation has effects.

    >>> import numpy as np
    >>> from lamina_ir import prims, shaped
    >>> a, b = Var(shaped((3,), np.dtype("float32"))), Var(shaped((3,), np.dtype("float32")))
    >>> Jaxpr([], [a], [Eqn(prims.sin_p, [a], [b], {})], [b])
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """

    __slots__ = ("constvars", "invars", "eqns", "outvars", "axis_names", "effectful", "__weakref__")

    def __init__(self, constvars: Sequence[Var], invars: Sequence[Var], eqns: Sequence[Eqn], outvars: Sequence[Atom],
                 axis_names: frozenset[AxisName] | None = None, effectful: bool | None = None) -> None:
        try:
            self.constvars = list(constvars)
            self.invars = list(invars)
            self.eqns = list(eqns)
            self.outvars = list(outvars)
        except TypeError:
            raise _not_lists(constvars=constvars, invars=invars, eqns=eqns, outvars=outvars) from None
        if axis_names is None or effectful is None:
            # Fast path: check the few primitives instead of each equation; most have no regions, axes or effects.
            try:
                # A long program has few different primitives, so this costs one set insertion per equation.
                used = set(map(_get_primitive, self.eqns))
            except AttributeError:
                wrong = next(e for e in self.eqns if not isinstance(e, Eqn))
                raise TypeError(f"Jaxpr: eqns must hold Eqns; got {short_repr(wrong)}") from None
            special = set()  # no comprehensions: before Python 3.12 each is a call, and this runs for every program
            for p in used:
                if p.axis_params or p.subprograms or p.effectful:
                    special.add(p)
                if p.undeclared_programs:
                    require_region_signature(self.eqns)
            marked = [e for e in self.eqns if e.primitive in special] if special else []
            if axis_names is None:
                axis_names = find_free_axis_names(marked) if marked else frozenset()
            if effectful is None:
                effectful = any(map(eqn_has_effects, marked))
        self.axis_names = axis_names
        self.effectful = effectful

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [*map(_get_aval, self.invars)]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [*map(_get_aval, self.outvars)]

    debug_info = None  # the names of arguments are not part of a program

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects of the equations."""
        return frozenset().union(*[e.effects for e in self.eqns]) if self.effectful else frozenset()

    def replace(self, **changes: Any) -> Jaxpr:
        """Return a copy with some of `constvars`, `invars`, `eqns`, `outvars` changed; other fields are recomputed.

        >>> from lamina_ir import parse
        >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }").jaxpr
        >>> program.replace(eqns=[], outvars=program.invars)
        { lambda ; a:f32[]. let in (a,) }
        """
        parts = {name: getattr(self, name) for name in ("constvars", "invars", "eqns", "outvars")}
        unknown = changes.keys() - parts.keys() - {"effects", "debug_info"}
        if unknown:
            raise TypeError(f"replace: a program has no {', '.join(sorted(unknown))}; expected {', '.join(parts)}")
        return Jaxpr(**{**parts, **{k: v for k, v in changes.items() if k in parts}})

    def pretty_print(self, **options: object) -> str:
        """Return the text of the program.

        Args:
          **options: `source_info=True` appends the source line to each equation, `weak=True` marks weak types. Accepted
            without effect: `use_color`, `width`, `custom_pp_eqn_rules`.
        Raises:
          TypeError: an unknown option.
          ValueError: `print_shapes=False`, `name_stack=True` or `print_effects=True`.
        """
        return _pretty(self, options)

    def __copy__(self) -> Jaxpr:
        return self  # programs are immutable

    def __deepcopy__(self, memo: object) -> Jaxpr:
        return self

    @override
    def __repr__(self) -> str:
        return _text(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return _html(self, "Jaxpr")


def _not_lists(call: str = "Jaxpr", **given: object) -> TypeError:
    name, value = next((n, v) for n, v in given.items() if not isinstance(v, (list, tuple)))
    return TypeError(f"{call}: {name} must be a list; got {short_repr(value)}")


@former_attributes(derived="memo_with_settings", forget="drop_memo", remembered="memo_keys")
class ClosedJaxpr:
    """A `Jaxpr` with the values of its constvars. Compared by identity; see `alpha_equal`."""

    __slots__ = ("jaxpr", "consts", "_facts", "_memo", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Value] = ()) -> None:
        try:
            same = len(jaxpr.constvars) == len(consts)
        except (AttributeError, TypeError):
            if not isinstance(jaxpr, Jaxpr):
                raise TypeError(f"ClosedJaxpr: expected a Jaxpr; got {short_repr(jaxpr)}") from None
            raise _not_lists("ClosedJaxpr", consts=consts) from None
        if not same:
            raise ValueError(f"ClosedJaxpr: the program has {len(jaxpr.constvars)} constvars; got {len(consts)} consts")
        self.jaxpr = jaxpr
        self.consts = list(consts)
        self._facts: Any = None  # set by `collect_facts`
        self._memo: dict[CacheKey, Any] | None = None

    in_avals = property(lambda self: [*map(_get_aval, self.jaxpr.invars)])
    out_avals = property(lambda self: [*map(_get_aval, self.jaxpr.outvars)])
    eqns = property(lambda self: self.jaxpr.eqns)
    literals = property(lambda self: self.consts)
    effects = property(lambda self: self.jaxpr.effects)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Value] | None = None) -> ClosedJaxpr:
        """Return a copy with another jaxpr or other constants."""
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """Return the program `f(jaxpr)` with the same constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def pretty_print(self, **options: object) -> str:
        """Return the text of the program; see `Jaxpr.pretty_print`."""
        return _pretty(self, options)

    def memo(self, key: CacheKey, make: Callable[..., _T]) -> _T:
        """Return `make()`, memoized on this program under `key`. The value must depend only on the program and
        `key`."""
        if self._memo is None:
            self._memo = {}
        try:
            return self._memo[key]
        except KeyError:
            pass  # `make` runs outside this block; otherwise the KeyError would be the context of its errors
        # Keys contain settings and generations of rules, so a program that lives long could collect entries without
        # limit. Values are only caches.
        if len(self._memo) > 256:
            self._memo.clear()
        value = self._memo[key] = make()
        return value

    def memo_with_settings(self, key: CacheKey, make: Callable[..., _T]) -> _T:
        """As `memo`, for values that also depend on rules or settings, such as the JVP, transpose or batch of the
        program."""
        settings = config.cache_key()
        key = settings, key
        found = None if self._memo is None else self._memo.get(key)
        if found is not None:
            return found
        # While `make` runs, another thread may change rules. Its result may then be a mixture, which is used once but
        # not stored.
        others = config.generation.changes_by_other_threads()
        value = make()
        return self.memo(key, lambda: value) if config.is_unchanged(settings, others) else value

    def memo_keys(self) -> list[CacheKey]:
        """Return the keys of memoized values."""
        return list(self._memo or ())

    def drop_memo(self, key: CacheKey) -> None:
        """Drop the memoized value under `key`, if present."""
        if self._memo is not None:
            self._memo.pop(key, None)

    def __copy__(self) -> ClosedJaxpr:
        return self  # programs are immutable

    def __deepcopy__(self, memo: object) -> ClosedJaxpr:
        return self

    @override
    def __repr__(self) -> str:
        return _text(self.jaxpr)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return _html(self.jaxpr, "ClosedJaxpr")


def subprograms(eqn: Eqn) -> list[ClosedJaxpr]:
    """Return the programs in the params of an equation.

    >>> from lamina_ir import parse
    >>> call = parse('''{ lambda ; a:f32[]. let
    ...     b:f32[] = xla_call[name=f call_jaxpr={ lambda ; c:f32[]. let in (c,) }] a
    ...   in (b,) }''').eqns[0]
    >>> subprograms(call)
    [{ lambda ; a:f32[]. let in (a,) }]
    """
    try:
        return _nested(eqn.primitive, eqn.params)
    except AttributeError:
        _check_eqn("subprograms", eqn)
        raise


def _check_eqn(call: str, eqn: object) -> None:
    if not isinstance(eqn, Eqn):
        raise TypeError(f"{call}: expected an Eqn; got {short_repr(eqn)}") from None


def _nested(p: Primitive, params: Params) -> list[ClosedJaxpr]:
    found: list[ClosedJaxpr] = []
    for name in p.subprograms:
        value = params[name]
        found.extend([value] if isinstance(value, ClosedJaxpr) else value if isinstance(value, (tuple, list)) else ())
    return found


def require_region_signature(eqns: Sequence[Eqn]) -> None:
    """Raise ProgramError if a primitive without a region signature holds a program.

    The effects, axes and types of that program would otherwise be ignored.
    """
    for e in eqns:
        for name in e.primitive.undeclared_programs:
            value = e.params.get(name)
            if any(isinstance(v, ClosedJaxpr) for v in (value if isinstance(value, (tuple, list)) else (value,))):
                op = e.primitive.name
                raise ProgramError(f"`{op}` holds a program in its param `{name}`, but has no region signature; define "
                                   f"Primitive({op!r}, region_signature=RegionSignature(...)), or, if the program does "
                                   f"not take the operands, RegionSignature(extra_programs=({name!r},), "
                                   "indivisible='reason') (see docs/design/nested-programs.md)")


def find_axis_names(p: Primitive, params: Params) -> frozenset[AxisName]:
    """Find the mapped axes that an equation refers to: in its axis params, and free in its nested programs.

    Args:
      p: the primitive.
      params: the params.
    Returns:
      A frozenset of names.
    Raises:
      TypeError: `p` is not a Primitive or `params` not a dict.
      ProgramError: a param is missing.

    >>> from lamina_ir import prims
    >>> find_axis_names(prims.psum_p, {"axes": ("i", 0), "axis_index_groups": None})
    frozenset({'i'})
    """
    try:
        return _axis_names_of(p, params)
    except (AttributeError, TypeError, LookupError):
        if not isinstance(p, Primitive) or not isinstance(params, dict):
            raise TypeError(f"find_axis_names: expected a Primitive and a dict; got {short_repr(p)} and "
                            f"{short_repr(params)}") from None
        missing = [name for name in p.params if name not in params]
        if missing:
            raise ProgramError(f"find_axis_names: `{p.name}` has the params {', '.join(p.params)}; {missing[0]} is "
                               "missing") from None
        raise


def _axis_names_of(p: Primitive, params: Params) -> frozenset[AxisName]:
    names: set[AxisName] = set()
    for param in p.axis_params:
        value = params[param]
        names.update([n for n in (value if isinstance(value, tuple) else (value,)) if not isinstance(n, int)])
    if p.subprograms:
        for sub in _nested(p, params):
            if isinstance(sub, ClosedJaxpr):  # `check` reports values of other types
                names.update(sub.jaxpr.axis_names)
        if p.region_signature.axis_binding:  # type: ignore[union-attr]
            # A map binds its own axes.
            names -= p.region_signature.axis_binding.names(params)  # type: ignore[union-attr]
    return frozenset(names)


def eqn_axis_names(eqn: Eqn) -> frozenset[AxisName]:
    """Find the mapped axes that an equation refers to."""
    try:
        return find_axis_names(eqn.primitive, eqn.params)
    except AttributeError:
        _check_eqn("eqn_axis_names", eqn)
        raise


def find_free_axis_names(eqns: Sequence[Eqn]) -> frozenset[AxisName]:
    """Find the mapped axes that equations refer to."""
    names: set[AxisName] = set()
    for e in eqns:
        if e.primitive.axis_params or e.primitive.subprograms:
            names |= eqn_axis_names(e)
    return frozenset(names)


def eqn_has_effects(eqn: Eqn) -> bool:
    """Whether an equation, or one in its nested programs, has effects."""
    try:
        p = eqn.primitive
    except AttributeError:
        _check_eqn("eqn_effectful", eqn)
        raise
    return p.effectful or bool(p.subprograms and any(isinstance(s, ClosedJaxpr) and s.jaxpr.effectful
                                                     for s in subprograms(eqn)))
