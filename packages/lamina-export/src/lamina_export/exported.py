"""`Exported`: a function that was traced once, and can be called, differentiated, mapped, written to a file, and run
elsewhere."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import lamina_runtime as runtime
import numpy as np
from typing_extensions import override
from lamina_ir import ShapedArray, dtypes, trees
from lamina_ir.extend import count_devices
from lamina_lowering import Lowered, as_portable_artifact, lower
from lamina_tracing import jit
from lamina_tracing.extend import eval_jaxpr, get_arg_avals

from .disabled_checks import DisabledSafetyCheck
from .vjp import export_vjp
from .symbolic_dim import evaluate
from .shape_polymorphism import Family
from .serialization import deserialize_exported, serialize_exported
from .solve_dims import flatten_arguments, solve_sizes

__all__ = ["CALLING_CONVENTION", "Exported", "default_export_platform", "deserialize"]

CALLING_CONVENTION = 9


class Exported:
    """An exported function. Made by `export` and `deserialize`.

    Attributes:
      fun_name: the function's name.
      in_tree: the structure of (args, kwargs), static ones left out; in_avals: their types, flat. Sizes may be symbolic.
      out_tree, out_avals: the same of the result.
      platforms: those it was exported for.
      nr_devices: how many devices it runs on.
      in_shardings_hlo, out_shardings_hlo: sharding of each argument and result on these, as HLO text; None: as it
        comes.
      disabled_safety_checks: what is not checked.
      ordered_effects, unordered_effects: always (): what calls Python cannot be exported.
      calling_convention_version: how `main` of the module takes its arguments: those of `module_kept_var_idx`, in order.
      uses_global_constants: whether sizes are symbolic.
    """

    ordered_effects: tuple[Any, ...] = ()
    unordered_effects: tuple[Any, ...] = ()
    calling_convention_version = CALLING_CONVENTION

    def __init__(self, *, fun_name: str, in_tree: Any, in_avals: Sequence[ShapedArray], out_tree: Any,
                 out_avals: Sequence[ShapedArray], platforms: Sequence[str],
                 disabled_safety_checks: Sequence[DisabledSafetyCheck],
                 family: Family, nr_devices: int = 1, in_shardings_hlo: Sequence[str | None] = (),
                 out_shardings_hlo: Sequence[str | None] = (), keep_unused: bool = False, vjp: Exported | None = None) -> None:
        self.fun_name = fun_name
        self.in_tree, self.in_avals = in_tree, tuple(in_avals)
        self.out_tree, self.out_avals = out_tree, tuple(out_avals)
        self.platforms = tuple(platforms)
        self.disabled_safety_checks = tuple(disabled_safety_checks)
        self.nr_devices = nr_devices
        self.in_shardings_hlo = tuple(in_shardings_hlo) or (None,) * len(self.in_avals)
        self.out_shardings_hlo = tuple(out_shardings_hlo) or (None,) * len(self.out_avals)
        self._family, self._keep_unused, self._derivative = family, keep_unused, vjp
        self._jitted: dict[Any, Callable[..., Any]] = {}

    @override
    def __repr__(self) -> str:
        ins, outs = (", ".join([a.str_long() for a in avals]) for avals in (self.in_avals, self.out_avals))
        return f"Exported({self.fun_name}: ({ins}) -> ({outs}), platforms={self.platforms})"

    __str__ = __repr__

    # --- calls ----------------------------------------------------------------------------------------------------------
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Args:
          args, kwargs: arrays, or traced values, of the structure and types with which it was exported; where sizes are
            symbolic of any sizes that fit.
        Returns:
          What the function returned, at once or as part of what is traced: every transformation takes it.
        Raises:
          ValueError: they do not fit, which is said with the argument's name; or this is another platform.

        >>> import numpy as np
        >>> from lamina_tracing import jit
        >>> from lamina_export import export, symbolic_args_specs
        >>> shapes = symbolic_args_specs(np.ones(3, np.float32), "n")
        >>> export(jit(lambda x: x * x.shape[0]))(shapes).call(np.ones(4, np.float32))
        Array([4., 4., 4., 4.], dtype=float32)
        """
        on_default = self.nr_devices == 1 and _get_platform() in self.platforms
        devices = None if on_default else self._choose_devices(args, kwargs)
        made = self._jitted.get(devices)
        if made is None:
            made = self._jitted[devices] = self._make_jitted(devices)
        if devices is None and not self._has_float0:
            return made(*args, **kwargs)
        return self._call_flat(made, args, kwargs)

    @functools.cached_property
    def _has_float0(self) -> bool:
        """Whether there are arguments or results of no type that a program has: cotangents of integers."""
        return any(a.dtype == dtypes.float0 for a in (*self.in_avals, *self.out_avals))

    def _call_flat(self, made: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        call = f"call of exported `{self.fun_name}`"
        flat = flatten_arguments(call, self.in_tree, args, kwargs)
        for i, (x, a) in enumerate(zip(flat, self.in_avals)):
            if a.dtype == dtypes.float0 and getattr(x, "dtype", None) != dtypes.float0:
                raise ValueError(f"{call}: args[{i}] must be of dtype float0, as the cotangent of integers is: "
                                 "numpy.zeros(shape, "
                                 f"lamina.dtypes.float0); got {type(x).__name__} of dtype {getattr(x, 'dtype', None)}")
        outs = iter(made(*[x for x, a in zip(flat, self.in_avals) if a.dtype != dtypes.float0]))
        at: dict[str, int] = {}
        if self._has_float0 and self.uses_global_constants:
            at = self._compute_sizes(call, [ShapedArray(np.shape(x), a.dtype) for x, a in zip(flat, self.in_avals)])
        return trees.tree_unflatten(self.out_tree, [
            np.zeros([evaluate(n, at) for n in a.shape], dtypes.float0) if a.dtype == dtypes.float0 else next(outs)
            for a in self.out_avals])

    def _make_jitted(self, devices: tuple[Any, ...] | None) -> Callable[..., Any]:
        """Return the jitted function: of the arguments as they come, or of flat ones if they have shardings over several
        devices, or if some have dtype float0, which programs do not have."""
        call, flat_ones = f"call of exported `{self.fun_name}`", devices is not None or self._has_float0
        taken = [i for i, a in enumerate(self.in_avals) if a.dtype != dtypes.float0]

        def exported(*args: Any, **kwargs: Any) -> Any:
            flat = [*args] if flat_ones else flatten_arguments(call, self.in_tree, args, kwargs)
            tree = trees.tree_structure((tuple(taken), {})) if flat_ones else self.in_tree
            avals = iter(get_arg_avals(call, self.fun_name, flat, tree))
            every = [a if a.dtype == dtypes.float0 else next(avals) for a in self.in_avals]
            outs = eval_jaxpr(self._family.instantiate(self._compute_sizes(call, every)), flat)
            return outs if flat_ones else trees.tree_unflatten(self.out_tree, outs)

        exported.__name__ = exported.__qualname__ = self.fun_name
        if devices is None:
            return jit(exported)
        ins, outs = (
            self._make_shardings([text for text, a in zip(texts, avals) if a.dtype != dtypes.float0], devices)
            for texts, avals in ((self.in_shardings_hlo, self.in_avals), (self.out_shardings_hlo, self.out_avals)))
        return jit(exported, in_shardings=tuple(ins), out_shardings=list(outs))

    def _compute_sizes(self, call: str, avals: Sequence[ShapedArray]) -> dict[str, int]:
        return solve_sizes(call, self.in_tree, self.in_avals, avals, self._family.scope, self._family.names,
                           DisabledSafetyCheck.shape_assertions() not in self.disabled_safety_checks)

    def _choose_devices(self, args: Any, kwargs: Any) -> tuple[Any, ...] | None:
        """The devices to run on; None: where the arguments are.

        Raises:
          ValueError: these are of another platform, or fewer.
        """
        held = [x for x in trees.tree_leaves((args, kwargs)) if isinstance(x, runtime.Array)]
        here = runtime.lowering_platform([*held[0].devices()][0] if held else runtime.devices()[0])
        if here not in self.platforms and DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
            raise ValueError(f"call of exported `{self.fun_name}`: it was exported for {', '.join(self.platforms)}, and this "
                             f"is {here}. Export it with platforms=[...] that name both, or with "
                             "disabled_checks=[DisabledSafetyCheck.platform()]")
        if self.nr_devices == 1 or count_devices(self._family.sample) > 1:
            return None
        for x in held:
            if x.sharding.num_devices == self.nr_devices:
                return tuple(x.sharding.devices_indices_map(x.shape))
        every = runtime.devices()
        if len(every) < self.nr_devices:
            raise ValueError(f"call of exported `{self.fun_name}`: it was exported for {self.nr_devices} devices; there are "
                             f"{len(every)}")
        return tuple(every[:self.nr_devices])

    @staticmethod
    def _make_shardings(texts: Sequence[str | None], devices: Sequence[Any]) -> list[Any]:
        return [None if text is None else runtime.GSPMDSharding(devices, text) for text in texts]

    def in_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Return the sharding of each argument on a mesh of `nr_devices` devices, or None.

        Args:
          mesh: a `Mesh`; only its devices count, in its order.
        """
        return self._shardings_on_mesh("in_shardings_jax", self.in_shardings_hlo, mesh)

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Return the sharding of each result on a mesh of `nr_devices` devices, or None.

        Args:
          mesh: a `Mesh`; only its devices count, in its order.
        """
        return self._shardings_on_mesh("out_shardings_jax", self.out_shardings_hlo, mesh)

    def _shardings_on_mesh(self, name: str, words: Sequence[str | None], mesh: Any) -> tuple[Any, ...]:
        devices = [*np.asarray(mesh.devices).flat]
        if len(devices) != self.nr_devices:
            raise ValueError(f"Exported.{name}: `{self.fun_name}` runs on {self.nr_devices} devices; the mesh has "
                             f"{len(devices)}")
        return tuple(self._make_shardings(words, devices))

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        """The older name of `in_shardings_hlo`."""
        return self.in_shardings_hlo

    @property
    def out_shardings(self) -> tuple[Any, ...]:
        """The older name of `out_shardings_hlo`."""
        return self.out_shardings_hlo

    # --- sizes ----------------------------------------------------------------------------------------------------------
    @property
    def uses_global_constants(self) -> bool:
        """Whether it takes arguments of any of many sizes."""
        return bool(self._family.names)

    @property
    def uses_shape_polymorphism(self) -> bool:
        """The older name of `uses_global_constants`."""
        warnings.warn("Exported.uses_shape_polymorphism is called uses_global_constants now", DeprecationWarning, stacklevel=2)
        return self.uses_global_constants

    def at_sizes(self, **sizes: int) -> Exported:
        """The function for one choice of its symbolic sizes, of which there is a module.

        Args:
          sizes: an int for each name.
        Raises:
          ValueError: a name is missing or not known, or the sizes break a constraint.
        """
        names = self._family.names
        if {*sizes} != {*names}:
            raise ValueError(f"Exported.at_sizes: `{self.fun_name}` has the sizes {', '.join(names) or 'none'}; got "
                             f"{', '.join(sizes) or 'none'}")
        broken = self._family.scope.find_broken(sizes)
        if broken:
            raise ValueError(f"Exported.at_sizes: {sizes} breaks {broken}")
        program = self._family.instantiate(sizes)
        return self._replace(in_avals=program.in_avals, out_avals=program.out_avals,
                             family=Family.from_program(program))

    def _replace(self, **changed: Any) -> Exported:
        return Exported(**{**dict(
            fun_name=self.fun_name, in_tree=self.in_tree, in_avals=self.in_avals, out_tree=self.out_tree,
            out_avals=self.out_avals,
            platforms=self.platforms, disabled_safety_checks=self.disabled_safety_checks, family=self._family,
            nr_devices=self.nr_devices, in_shardings_hlo=self.in_shardings_hlo, out_shardings_hlo=self.out_shardings_hlo,
            keep_unused=self._keep_unused), **changed})

    # --- modules --------------------------------------------------------------------------------------------------------
    def _lower(self, platform: str | None = None) -> Lowered:
        if self.uses_global_constants:
            raise ValueError(f"the module of `{self.fun_name}`: its sizes {', '.join(self._family.names)} are symbolic, and a "
                             "module needs known sizes. Use at_sizes(...)")
        if platform is not None and platform not in self.platforms:
            raise ValueError(f"the module of `{self.fun_name}`: platform must be one of {', '.join(self.platforms)}; got "
                             f"{platform!r}")
        return lower(self._family.instantiate({}), name=self.fun_name, platform=platform or self.platforms[0],
                     inline_limit=None, keep_unused=self._keep_unused)

    def mlir_module(self, platform: str | None = None) -> str:
        """The StableHLO text of its module.

        Args:
          platform: one of `platforms`; None: the first.
        Raises:
          ValueError: sizes are symbolic; or the platform is none of its own.
        """
        return self._lower(platform).as_text()

    @functools.cached_property
    def mlir_module_serialized(self) -> bytes:
        """The module for the first platform as portable StableHLO; as MLIR bytecode if the function contains maps over
        devices, which have no portable form."""
        lowered = self._lower()
        return lowered.bytecode() if lowered.shardy else as_portable_artifact(lowered)

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """Positions of the flat arguments that the module's `main` takes."""
        program = self._family.sample
        kept = lower(program, platform=self.platforms[0], keep_unused=self._keep_unused).used_args
        return tuple([i for i, on in enumerate(kept) if on])

    @property
    def mlir_module_serialization_version(self) -> int:
        """The older name of `calling_convention_version`."""
        return self.calling_convention_version

    @property
    def lowering_platforms(self) -> tuple[str, ...]:
        """The older name of `platforms`."""
        return self.platforms

    # --- derivatives and files --------------------------------------------------------------------------------------------
    def has_vjp(self) -> bool:
        """Whether `vjp()` gives an exported function: it always does, as the program is kept."""
        return True

    def vjp(self) -> Exported:
        """The exported function of derivatives in reverse: it takes the flat arguments, then a cotangent for each flat result,
        and gives a tuple with a cotangent for each flat argument. Those of integers are of dtype float0.

        Raises:
          ValueError: something in it has no derivative in reverse.
        """
        if self._derivative is None:
            self._derivative = Exported(**export_vjp(self))
        return self._derivative

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes, for `deserialize`, here or elsewhere. See `docs/how-to/exported-functions.md`.

        Args:
          vjp_order: how many derivatives in reverse are written with it; others are made of the program when they are asked
            for.
        Raises:
          NotImplementedError: its arguments or results hold a class of nodes that was not registered for this.
        """
        return bytearray(serialize_exported(self, vjp_order))


def _get_platform() -> str:
    return runtime.lowering_platform(runtime.devices()[0])


def default_export_platform() -> str:
    """The platform that `export` takes when none is named: that of the default device, 'cpu', 'cuda', 'rocm' or 'tpu'.

    >>> default_export_platform()
    'cpu'
    """
    return _get_platform()


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported function that `Exported.serialize` wrote.

    Args:
      blob: the bytes. They may come from anywhere: nothing in them is executed before it is called, and it can do no more than
        compute.
    Raises:
      ValueError: they are no exported function, damaged, of a newer format, or need what is not registered here.

    >>> import numpy as np
    >>> from lamina_tracing import jit
    >>> from lamina_export import export
    >>> saved = export(jit(lambda x: x + 1))(np.ones(2, np.float32)).serialize()
    >>> deserialize(saved).call(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    return deserialize_exported(blob, Exported)
