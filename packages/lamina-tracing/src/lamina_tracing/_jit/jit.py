"""`jit`: trace once per signature, then call through the dispatcher.

A `JitSpec` holds the function and its options; the dispatcher hook makes it the callable that users get. The default
dispatcher in this module needs no backend.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar, Unpack, overload

from lamina_ir import config, trees
from lamina_ir.typing import Device, Function, Tree

from . import hooks
from .call_types import JitOptions, Jitted
from .jit_spec import JitSpec, contains_tracer
from .fast_path import FastPathCache
from .._core.signature import wraps
from .._core.trace import EVALUATION, trace_state
from .._diagnostics.tracebacks import api_boundary
from .._core.tracer import Tracer
from .call_spec import CallSpec
from .._typing import CompilerOptions

__all__ = ["jit"]

P = ParamSpec("P")
R = TypeVar("R")


class PortableDispatcher:
    """Default dispatcher: caches programs in Python and runs them with the evaluator; no backend."""

    def jit(self, spec: CallSpec) -> Function:
        return _portable_jit(spec)

    def pmap(self, spec: CallSpec) -> Function:
        return spec.make_portable_callable()

    def device_count(self, backend: str | None) -> int | None:
        return None

    def share(self, devices: Sequence[Device] | None, backend: str | None) -> tuple[int, int]:
        return 1, 1


def _portable_jit(spec: CallSpec) -> Function:
    fun, inline = spec.fun, spec.inline
    own_dispatcher = hooks.dispatcher
    forward: tuple[hooks.Dispatcher, Function] | None = None  # (later dispatcher, its callable for `spec`)
    quick, disabled = FastPathCache(spec), config.disable_jit

    @api_boundary
    def jitted(*args: Tree, **kwargs: Tree) -> Tree:
        nonlocal forward
        if hooks.dispatcher is not own_dispatcher:  # a runtime's dispatcher was installed after this was created
            if forward is None or forward[0] is not hooks.dispatcher:
                forward = hooks.dispatcher, hooks.dispatcher.jit(spec)
            return forward[1](*args, **kwargs)
        if disabled.ever_enabled and disabled.value:
            return fun(*args, **kwargs)
        is_eager = trace_state.trace is EVALUATION
        if inline:
            # A traced argument means that a program is traced: no call is recorded. `fun` of a library function needs
            # no
            # staging of its own.
            for a in args:
                if isinstance(a, Tracer):
                    return fun(*args, **kwargs) if spec.is_library_function else spec.inline_call(args, kwargs)
            if not is_eager:
                return spec.inline_call(args, kwargs)
        keyed = None
        # Axis names in scope are not in the key.
        if is_eager and quick.usable and not trace_state.axes:
            keyed = quick.key(args, kwargs)
            if keyed is not None:
                run = quick.find(keyed[0])
                if run is not None:
                    return run(keyed[1])
                # Read before tracing: if a rule changes meanwhile, the result is not cached.
                settings, others = config.cache_key(), config.generation.changes_by_other_threads()
        # Bounds checks report the caller's line, so calls are not cached.
        if inline and spec.is_library_function and config.debug_bounds.value:
            return spec.inline_call(args, kwargs)
        flat, tree, static = spec.split(args, kwargs)
        if inline and contains_tracer(flat):
            return spec.inline_call(args, kwargs)
        staged = spec.trace_call(args, kwargs, flat, tree, static)
        if (trace_state.trace is EVALUATION and not staged.outer and not staged.closed.jaxpr.axis_names
                and not contains_tracer(flat)):
            if keyed is not None:
                # Only programs without outer values or free axes reach this line, so the key describes the call
                # completely.
                quick.remember(keyed[0], keyed[2], staged, settings, others)
            return trees.tree_unflatten(staged.out_tree, hooks.evaluator.program(staged.closed, flat))
        return spec.bind_program(staged, flat)

    wraps(fun)(jitted)
    jitted.spec = spec  # type: ignore[attr-defined]
    return jitted


hooks.set_dispatcher(PortableDispatcher())


@overload
def jit(fun: Callable[P, R], **options: Unpack[JitOptions]) -> Jitted[P, R]: ...


@overload
def jit(fun: None = None, **options: Unpack[JitOptions]) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@api_boundary
def jit(fun: Function | None = None, *, static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Iterable[str] | None = None, device: Device = None, backend: str | None = None,
        donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Iterable[str] | None = None,
        inline: bool = False, keep_unused: bool = False, in_shardings: Tree = None, out_shardings: Tree = None,
        compiler_options: CompilerOptions | None = None, abstracted_axes: object = None) -> Function:
    """Compile a function. The first call with arguments of given types traces it, later calls only run it.

    Args:
      fun: a pure function of arrays, numbers and trees of them. If omitted, `jit` is a decorator with options.
      static_argnums: positions of arguments that are Python values and part of the program: hashable, compared by `==`.
      static_argnames: their names. One of the two is enough; the other follows from the signature.
      device: the device to run on; the results are committed to it. Default: the device of the arguments.
      backend: platform name, such as "cpu".
      donate_argnums: positions of arguments whose memory may be reused for results; using them again raises.
      donate_argnames: their names.
      inline: when called while another function is traced, become part of it instead of a call.
      keep_unused: pass unused arguments to the device too.
      in_shardings, out_shardings: shardings of positional arguments and results. Each is a sharding, such as an array's
        `.sharding`, or None (chosen at the call). Or a tree of these that is a prefix of the arguments (without static
        ones) or of the result. All must use the same devices, and the call runs on them. Inside another jitted function
        they are hints; they take effect only if the outer function runs on several devices.
      compiler_options: settings for XLA by name, such as {"xla_embed_ir_in_executable": True}; only for the outermost
        call.
      abstracted_axes: must be None: each program is staged for known sizes.
    Returns:
      A function with the signature of `fun`.
    Raises:
      TypeError: `fun` is not callable, or an argument is not an array, a number or a tree of them.
      StaticArgumentError: a static argument is traced or not hashable. It is a TypeError and a ValueError.
      ValueError: a position is out of range, a sharding does not fit its array, or a sharding differs from the one that
        an argument is committed to.

    >>> jit(lambda x: x * 2)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    options = dict(static_argnums=static_argnums, static_argnames=static_argnames, device=device, backend=backend,
                   donate_argnums=donate_argnums if donate_argnums is not None else (),
                   donate_argnames=donate_argnames, inline=inline, keep_unused=keep_unused, in_shardings=in_shardings,
                   out_shardings=out_shardings, compiler_options=compiler_options)
    if abstracted_axes is not None:
        raise NotImplementedError("jit: abstracted_axes must be None: a program is staged and compiled for known sizes, one "
                                  "for each shape it is called with")
    if fun is None:
        return functools.partial(jit, **options)
    return hooks.dispatcher.jit(JitSpec(fun, **options))


