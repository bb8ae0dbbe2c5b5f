"""`Primitive`: the facts about an operation that all transformations use: name, params, types, evaluation,
linearity."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import unwrap
from typing import Any

from typing_extensions import override


from .._util.short_repr import short_repr
from ..errors import MissingRuleError, ProgramError
from .region_signature import RegionSignature
from ..typing import Function, Outputs, ParamValue, Params, Value
from .._types.avals import ShapedArray, shaped
from .._typing import Avals
from .._util.former_names import former_attributes, former_parameters

__all__ = ["Primitive", "check_savable", "get_primitive", "get_primitives", "register_primitive", "set_bind"]


def _are_names(v: Any) -> bool:
    return type(v) in (tuple, list) and all(map(_is_name, v)) and len(set(v)) == len(v)


def _is_name(v: object) -> bool:
    return isinstance(v, str) and v.isidentifier()


def _are_positions(v: Any) -> bool:
    return type(v) in (tuple, list) and all(type(i) is int and i >= 0 for i in v) and len(set(v)) == len(v)


def _is_position_pair(v: Any) -> bool:
    return _are_positions(v) and len(v) in (0, 2)


# Constructor argument -> (description of valid values, test). Arguments with their default value are not tested.
_FACTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("an identifier", _is_name),
    "infer": ("a function", callable),
    **dict.fromkeys(("numpy", "spmd", "varying_axes"), ("a function or None", callable)),
    **dict.fromkeys(("params", "axis_params"), ("a tuple of different identifiers", _are_names)),
    "linear_in": ("a tuple of different operand positions", _are_positions),
    "bilinear_in": ("two operand positions, or none", _is_position_pair),
    **dict.fromkeys(("family", "spec"), ("a string", lambda v: type(v) is str)),
    **dict.fromkeys(("multiple", "elementwise", "effectful", "is_check"), ("a bool", lambda v: type(v) is bool)),
    "region_signature": ("a RegionSignature or None", lambda v: isinstance(v, RegionSignature)),
    **dict.fromkeys(("defaults", "kinds"), ("a dict by param, or None", lambda v: type(v) is dict)),
    "version": ("an int, 1 or more", lambda v: type(v) is int and v >= 1),
}


def _check_facts(facts: dict[str, Any], defaults: dict[str, Any]) -> None:
    for field, v in facts.items():
        if field == "self" or field in defaults and v is defaults[field]:
            continue
        description, is_valid = _FACTS[field]
        if not is_valid(v):
            raise ProgramError(f"Primitive {facts['name']!r}: {field}: must be {description}; got "
                               f"{type(v).__name__}: {v!r:.60}")
    params = facts["params"]
    for field in ("axis_params", "defaults", "kinds"):
        for param in facts[field] or ():
            if param not in params:
                raise ProgramError(f"Primitive {facts['name']!r}: {field}: must name params of the primitive, which "
                                   f"are {', '.join(params) or 'none'}; got {param!r}")


def _no_infer(*avals: ShapedArray, **params: ParamValue) -> Avals:
    """Default of `infer`: the type rule is set later, by `def_abstract_eval`."""


@former_attributes(flow="region_signature", own_bind="custom_bind", own_impl="custom_impl",
                   plainly_over="has_default_varying_axes", unsaid="undeclared_programs")
class Primitive:
    """The facts about one primitive.

    Args:
      name: printed name; an identifier, unique among all primitives.
      params: the keyword parameters that every equation has, in printing order.
      infer: `infer(*avals, **params)` returns the aval of the result (a tuple of avals if `multiple`), or raises.
      numpy: `numpy(*arrays, **params)` evaluates the primitive on NumPy arrays (returns a tuple if `multiple`). With a
        `region_signature` it is `numpy(run, *arrays, **params)`, where `run(program, arrays)` returns a list of
        results. With `axis_params` it is `numpy(env, *operands, **params)`: the `AxisEnv` and, for each operand, a list
        with one array per device; results have the same form. If omitted, evaluation raises MissingRuleError.
      spmd: for primitives with regions that may use mapped axes: `spmd(run, env, operands, params)` evaluates it on all
        devices in lockstep. Operands and results are lists with one array per device; `run(program, operands, env)`
        returns the results of a region in the same form.
      linear_in: operand positions in which the primitive is jointly linear (`add`: both; `select`: 1 and 2).
      bilinear_in: two positions; the primitive is linear in each while the other is fixed (`mul`, `dot_general`).
      family: name of the file with its rules in every package.
      multiple: whether it returns a tuple of results.
      spec: section of the StableHLO specification, or another source of its definition.
      elementwise: whether operands and result share one shape (rank-0 operands broadcast).
      region_signature: of a primitive with nested programs, how operands and results correspond to theirs.
      defaults: param -> value with which the param is omitted from the printed text.
      effectful: whether it has an effect beyond its results; dead-code elimination then keeps it.
      is_check: whether its effect is only to fail if its first operand, a bool, is false. It may be repeated, and
        examples of a batch that take no part in a branch or loop pass.
      axis_params: names of params that hold the name, or a tuple of names, of mapped axes (collectives).
      varying_axes: the varying axes of the results, if they differ from the default: the union of those of the operands
        (for a collective also its own axes, for a primitive with effects all axes). `varying_axes(total, names, params,
        bound)` returns one frozenset for all results, or one per result, from that union, the axes that the equation
        refers to, its params, and all bound axes.
      kinds: param -> kind of its value, a key of `param_types.KINDS` such as `int` or `ints`; `check` tests it.
      version: version of name, operands and params, stored in saved programs. Increase it if equations of the previous
        version would be misread, and add an upgrade to `extend.upgrades`; a new param with a default needs neither.
    Raises:
      ProgramError: an invalid fact.

    A primitive can also be created with only a name and completed later: `multiple_results`, `def_abstract_eval`,
    `def_impl`. Its equations may then have any params.

    >>> import numpy as np
    >>> twice_p = Primitive("twice_of_docs")
    >>> twice_p.def_impl(lambda x: 2 * x).__name__, twice_p.def_abstract_eval(lambda x: x).__name__
    ('<lambda>', '<lambda>')
    >>> twice_p.bind(np.float32(3))
    np.float32(6.0)
    """

    __slots__ = ("name", "params", "infer", "numpy", "linear_in", "bilinear_in", "family", "multiple", "spec",
                 "elementwise", "region_signature", "subprograms", "defaults", "effectful", "axis_params", "kinds",
                 "may_read_axes", "spmd", "has_open_params",
                 "undeclared_programs", "varying_axes", "has_default_varying_axes", "custom_bind", "custom_impl",
                 "version", "is_check", "__weakref__")

    @former_parameters(flow="region_signature", over="varying_axes")
    def __init__(self, name: str, *, infer: Function = _no_infer, numpy: Function | None = None,
                 params: Sequence[str] = (), linear_in: Sequence[int] = (), bilinear_in: Sequence[int] = (),
                 family: str = "", multiple: bool = False, spec: str = "", elementwise: bool = False,
                 region_signature: RegionSignature | None = None, defaults: Params | None = None,
                 effectful: bool = False, axis_params: Sequence[str] = (),
                 kinds: dict[str, str] | None = None, spmd: Function | None = None,
                 varying_axes: Function | None = None, version: int = 1, is_check: bool = False) -> None:
        _check_facts(locals(), unwrap(Primitive.__init__).__kwdefaults__)
        self.name = name
        self.params = tuple(params)
        self.has_open_params = infer is _no_infer and not params  # completed later: the params are not known
        self.infer: Function = _no_type_rule(name) if infer is _no_infer else infer
        self.numpy: Function = numpy or _no_evaluation(name)
        self.custom_bind: Function | None = None  # replaces `bind`, of a primitive that binds several equations
        self.custom_impl: Function | None = None  # evaluates the primitive on concrete values
        self.linear_in = tuple(linear_in)
        self.bilinear_in = tuple(bilinear_in)
        self.family = family
        self.multiple = multiple
        self.spec = spec
        self.elementwise = elementwise
        self.region_signature = region_signature
        # Params that hold a `ClosedJaxpr`, or a tuple of them.
        self.subprograms = () if region_signature is None else region_signature.programs
        self.defaults = defaults or {}
        self.effectful = effectful
        self.axis_params = tuple(axis_params)
        self.kinds = dict(kinds or {})
        if region_signature is not None:
            region_signature.check_declaration(name, self.params)
            self.kinds = {**region_signature.kinds(), **self.kinds}
        # Params that may hold a program although there is no region signature: `Jaxpr` rejects programs in them.
        self.undeclared_programs = () if region_signature else tuple(
            [p for p in self.params if self.kinds.get(p, "program") in ("program", "programs")])
        self.spmd = spmd
        self.varying_axes = varying_axes
        self.version = version
        self.is_check = is_check
        # The varying axes of the results are the union of those of the operands.
        self.has_default_varying_axes = not (varying_axes or region_signature or axis_params or effectful)
        self.may_read_axes = bool(axis_params or region_signature)  # may refer to mapped axes: `bind` looks for them

    # Methods with the names that programs written for other jax-style systems use.
    def bind(self, /, *args: Value, **params: ParamValue) -> Outputs:
        """Apply the primitive to values or tracers.

        Args:
          *args: the operands.
          **params: all params of the primitive.
        Returns:
          The result; a tuple if `multiple_results`.
        Raises:
          TypeError, ValueError: invalid operands or params; the message comes from the primitive.

        >>> import numpy as np
        >>> from lamina_ir import prims
        >>> float(prims.mul_p.bind(np.float32(2), np.float32(3)))
        6.0
        """
        if self.custom_bind is not None:
            return self.custom_bind(*args, **params)
        return _bind(self, *args, **params)

    def bind_with_trace(self, trace: Any, args: Sequence[Value], params: Params) -> Outputs:
        """Apply the primitive in a given trace: `trace.process(primitive, args, params)`."""
        return trace.process(self, tuple(args), params)

    def get_bind_params(self, params: Params) -> tuple[list[Function], Params]:
        """Return the arguments of `bind` besides the operands, for an equation with these params: a list of functions
        (always empty: programs are params) and the params.

        >>> from lamina_ir import prims
        >>> prims.reduce_sum_p.get_bind_params({"axes": (0,)})
        ([], {'axes': (0,)})
        """
        return [], dict(params)

    def expected_params(self, given: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the params that an equation with the params `given` must have."""
        return tuple(given) if self.has_open_params else self.params

    @property
    def multiple_results(self) -> bool:
        """Whether `bind` returns a tuple of results."""
        return self.multiple

    @multiple_results.setter
    def multiple_results(self, many: bool) -> None:
        self.multiple = bool(many)

    @property
    def call_primitive(self) -> bool:
        """Whether it only runs the program in its param `call_jaxpr` on its operands."""
        return self.region_signature is not None and self.name == "xla_call"

    @property
    def map_primitive(self) -> bool:
        """Whether it runs the program in its param `call_jaxpr` once for each member of an axis."""
        return self.region_signature is not None and self.name in ("xla_pmap", "xmap")

    def abstract_eval(self, *avals: ShapedArray, **params: ParamValue) -> Avals:
        """Return the types of the results: `infer`."""
        return self.infer(*avals, **params)

    def impl(self, *args: Value, **params: ParamValue) -> Outputs:
        """Evaluate on concrete values, by the function given to `def_impl` or else `numpy`."""
        return (self.custom_impl or self.numpy)(*args, **params)

    def def_impl(self, impl: Function) -> Function:
        """Set the evaluation on concrete values. Compiled programs also need a rule in `lowering_rules`.

        Args:
          impl: `impl(*arrays, **params)`.
        Returns:
          `impl`, so that this can be a decorator.
        """
        self.custom_impl = self.numpy = impl
        return impl

    def def_abstract_eval(self, rule: Function) -> Function:
        """Set the type rule `infer`.

        Args:
          rule: `rule(*avals, **params)` returns the type of the result, a sequence of types if `multiple_results`. Types
            are `ShapedArray`s, or other objects with a shape and a dtype that are not arrays.
        Returns:
          `rule`, so that this can be a decorator.
        Raises:
          ProgramError: when the rule is used, if it returns something else.

        >>> zeros_p = Primitive("zeros_of_docs")
        >>> rule = zeros_p.def_abstract_eval(lambda: None)
        >>> zeros_p.infer()
        Traceback (most recent call last):
        lamina_ir.errors.ProgramError: `zeros_of_docs`: its type rule at <doctest ... must return a type; got NoneType: None
        """
        self.infer = lambda *avals, **params: _check_types(self, rule, rule(*avals, **params))
        return rule

    def def_effectful_abstract_eval(self, rule: Function) -> Function:
        """Set the type rule of a primitive with effects; `rule` returns (types, effects)."""
        self.effectful, self.has_default_varying_axes = True, False

        def infer(*avals: ShapedArray, **params: ParamValue) -> Avals:
            made = rule(*avals, **params)
            if not isinstance(made, tuple | list) or len(made) != 2:
                raise _bad_types(self, rule, "a pair (types, effects)", made)
            return _check_types(self, rule, made[0])
        self.infer = infer
        return rule

    def def_custom_bind(self, bind: Function) -> Function:
        """Replace `bind` by a function, which may bind several equations."""
        self.custom_bind = bind
        return bind

    @override
    def __repr__(self) -> str:
        return self.name

    @override
    def __reduce__(self) -> tuple[Function, tuple[str]]:
        check_savable("pickle", self)
        return get_primitive, (self.name,)


def _check_types(prim: Primitive, rule: Function, made: Any) -> Avals:
    """Return what a type rule returned as avals; ProgramError if it is something else."""
    if not prim.multiple:
        return made if isinstance(made, ShapedArray) else _as_aval(prim, rule, made)
    if not isinstance(made, tuple | list):
        raise _bad_types(prim, rule, "a sequence of types", made)
    return [aval if isinstance(aval, ShapedArray) else _as_aval(prim, rule, aval) for aval in made]


def _as_aval(prim: Primitive, rule: Function, made: Any) -> ShapedArray:
    if not (hasattr(made, "shape") and hasattr(made, "dtype")) or hasattr(made, "__array__"):
        raise _bad_types(prim, rule, "types" if prim.multiple else "a type", made)
    return shaped(made.shape, made.dtype, bool(getattr(made, "weak_type", False)))


def _bad_types(prim: Primitive, rule: Function, wanted: str, made: object) -> ProgramError:
    code = getattr(unwrap(rule), "__code__", None)
    at = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
    return ProgramError(f"`{prim.name}`: its type rule{at} must return {wanted}; got {short_repr(made)}")


def _no_evaluation(name: str) -> Function:
    def numpy(*args: Value, **params: ParamValue) -> Outputs:
        raise MissingRuleError(f"`{name}` has no NumPy evaluation; pass one, Primitive({name!r}, numpy=...), or run it "
                               "compiled")
    return numpy


def _no_type_rule(name: str) -> Function:
    def infer(*avals: ShapedArray, **params: ParamValue) -> Avals:
        raise MissingRuleError(f"`{name}` has no type rule, so it cannot be part of a program; pass one, "
                               f"Primitive({name!r}, infer=...), or call its def_abstract_eval")
    return infer


def _evaluate(prim: Primitive, /, *args: Value, **params: ParamValue) -> Outputs:
    return prim.impl(*args, **params)


_bind: Function = _evaluate


def set_bind(bind: Function) -> Function:
    """Set the function that `Primitive.bind` calls: `bind(primitive, *args, **params)`.

    `lamina_tracing` sets it, since it knows the active transformations.

    Args:
      bind: the function.
    Returns:
      The previous function.

    >>> from lamina_ir import prims
    >>> before = set_bind(lambda op, *args, **params: op.name)
    >>> prims.add_p.bind(1.0, 2.0)
    'add'
    >>> _ = set_bind(before)
    """
    global _bind
    before, _bind = _bind, bind
    return before


_BY_NAME: dict[str, Primitive] = {}


def get_primitive(name: str) -> Primitive:
    """Return the primitive with this printed name; KeyError if absent."""
    return _BY_NAME[name]


def check_savable(call: str, prim: Primitive) -> None:
    """ProgramError if a primitive of another family is registered with this one's name: it would be loaded in its place.

    Of one family, the registered primitive may be another version or declaration of this one.
    """
    registered = _BY_NAME.get(prim.name, prim)
    if registered.family != prim.family:
        raise ProgramError(f"{call}: another primitive is registered with the name {prim.name!r}, and would be loaded in place "
                           "of this one; give this one another name")


def get_primitives(names: str) -> frozenset[Primitive]:
    """Return the primitives with these printed names, separated by spaces; KeyError if one is absent.

    Passes compare primitives, not names: a program may contain a primitive of a user with the name of a built-in one.

    >>> from lamina_ir import prims
    >>> get_primitives("add sub") == {prims.add_p, prims.sub_p}
    True
    """
    return frozenset([_BY_NAME[name] for name in names.split()])


def register_primitive(prim: Primitive) -> Primitive:
    """Register a third-party primitive by name, so that printed and saved programs with it can be read.

    Args:
      prim: the primitive.
    Returns:
      The primitive itself.
    Raises:
      ValueError: another primitive, built-in ones included, has its name.

    >>> from lamina_ir import Primitive, parse
    >>> twice_p = register_primitive(Primitive("twice", infer=lambda x: x, numpy=lambda x: 2 * x))
    >>> parse("{ lambda ; a:f32[]. let b:f32[] = twice a in (b,) }").jaxpr.eqns[0].primitive is twice_p
    True
    """
    if not isinstance(prim, Primitive):
        raise TypeError(f"register_primitive: prim must be a Primitive; got {short_repr(prim)}")
    if _BY_NAME.setdefault(prim.name, prim) is not prim:
        raise ValueError(f"register_primitive: another primitive is already named {prim.name!r}")
    return prim
