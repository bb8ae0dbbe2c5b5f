"""`pallas_call`: run a kernel on blocks of arrays, once for each position of a grid."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value
from lamina_refs import freeze, new_ref
from lamina_tracing import jit, lax
from lamina_tracing.extend import api_boundary

from ._blocks import Blocks, make_blocks
from ._grid import is_interpreting, running_program
from ._specs import BlockSpec, GridSpec, PrefetchScalarGridSpec, no_block_spec

__all__ = ["pallas_call"]

_GridSpec = GridSpec | PrefetchScalarGridSpec


@api_boundary
def pallas_call(kernel: Callable[..., None], out_shape: Tree, *, grid_spec: _GridSpec | None = None,
                grid: int | Sequence[Value] = (), in_specs: Tree = no_block_spec, out_specs: Tree = no_block_spec,
                scratch_shapes: Tree = (), input_output_aliases: Mapping[int, int] | None = None, debug: bool = False,
                interpret: Any = False, name: str | None = None, compiler_params: Any = None, cost_estimate: Any = None,
                backend: str | None = None, metadata: Any = None) -> Function:
    """Return a function that runs a kernel on blocks of its arguments, once for each position of a grid.

    The kernel takes a mutable reference for each block: of the arguments, of the results, and of temporary memory. It
    writes the results to their references. The positions run one after the other, the last axis of the grid fastest, as a
    loop of ordinary operations. So the function can be jitted, mapped and differentiated.

    Args:
      kernel: takes the references; returns None.
      out_shape: a tree of objects with shape and dtype. A tuple or list at the top gives a reference for each entry.
      grid_spec: a `GridSpec` or `tpu.PrefetchScalarGridSpec`, instead of `grid`, `in_specs`, `out_specs` and `scratch_shapes`.
      grid: the size of each axis of the grid, or one size.
      in_specs: a `BlockSpec` for each argument, or trees of them. Left out, each block is the whole array.
      out_specs: the same for the results.
      scratch_shapes: temporary memory, which all positions share: a sequence of `MemoryRef`s, or of other objects with shape
        and dtype; a dict gives keyword arguments.
      input_output_aliases: position of a flat argument -> that of the flat result which starts with its value.
      debug, compiler_params, cost_estimate, backend, metadata: have no effect.
      name: of the program, for errors and logs; None: that of the kernel.
      interpret: must be true, except in a block `with tpu.force_tpu_interpret_mode():`. Kernels are not compiled for a device
        on their own.
    Returns:
      A function of arrays, which returns a tree of arrays as `out_shape`. What the kernel does not write is NaN, the smallest
      integer, or False, as are the elements of a block beyond the end of an array.
    Raises:
      ValueError: `interpret` is not true; specs do not fit the arguments or results; or the kernel returns a value.
      TypeError: an argument is not an array.

    Source: jax.experimental.pallas.pallas_call

    >>> from lamina_ir import ShapeDtypeStruct
    >>> def add(x_ref, y_ref, o_ref):
    ...     o_ref[...] = x_ref[...] + y_ref[...]
    >>> half = BlockSpec((2,), lambda i: (i,))
    >>> x = np.arange(4.)
    >>> shape = ShapeDtypeStruct((4,), np.float32)
    >>> pallas_call(add, shape, grid=2, in_specs=[half, half], out_specs=half, interpret=True)(x, x)
    Array([0., 2., 4., 6.], dtype=float32)
    """
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    elif not (_is_empty(grid) and in_specs is out_specs is no_block_spec and _is_empty(scratch_shapes)):
        raise ValueError("pallas_call: grid_spec has grid, in_specs, out_specs and scratch_shapes; leave these out")
    if not isinstance(grid_spec, GridSpec | PrefetchScalarGridSpec):
        raise TypeError(f"pallas_call: grid_spec must be a GridSpec; got {type(grid_spec).__name__}")
    spec, aliases = grid_spec, dict(input_output_aliases or {})

    def run(*args: Tree) -> Tree:
        return _run(kernel, out_shape, spec, aliases, args)

    # One program: memory that nothing was written to is no result, so `debug_nans` does not see its NaNs.
    run.__name__ = run.__qualname__ = str(name or getattr(kernel, "__name__", "kernel"))
    jitted = jit(run)

    @api_boundary
    def call_kernel(*args: Tree) -> Tree:
        if not (interpret or is_interpreting()):
            raise ValueError("pallas_call: interpret must be True: kernels run as a loop of ordinary operations here, and are "
                             "not compiled for one device")
        return jitted(*args)

    return call_kernel


def _is_empty(given: Any) -> bool:
    return isinstance(given, tuple | list | dict) and not given


class _Kernel(NamedTuple):
    """A kernel and its blocks.

    Attributes:
      fun: the function of references.
      grid: the size of each axis.
      ins, outs: the blocks of the flat arguments and results.
      scratch: the blocks of temporary memory.
      in_tree, out_tree, scratch_tree: the structures of arguments, results and temporary memory.
      scalar_tree: the structure of the first arguments, which index maps take.
    """

    fun: Callable[..., None]
    grid: tuple[Value, ...]
    ins: list[Blocks]
    outs: list[Blocks]
    scratch: list[Blocks]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    scratch_tree: PyTreeDef
    scalar_tree: PyTreeDef

    def run_at(self, position: Sequence[Value], inputs: Sequence[Value], memory: Sequence[Value]) -> list[Value]:
        """Run the kernel at one position of the grid; return the results and temporary memory after it."""
        blocks = [*self.ins, *self.outs, *self.scratch]
        arrays, n = [*inputs, *memory], len(inputs)
        scalars = trees.tree_unflatten(self.scalar_tree, [new_ref(x) for x in inputs[:self.scalar_tree.num_leaves]])
        starts = [b.find_start(position, scalars) for b in blocks]
        refs = [new_ref(b.read(x, start)) for b, x, start in zip(blocks, arrays, starts)]
        m = n + len(self.outs)
        outs, scratch = trees.tree_unflatten(self.out_tree, refs[n:m]), trees.tree_unflatten(self.scratch_tree, refs[m:])
        args = (*trees.tree_unflatten(self.in_tree, refs[:n]), *_as_arguments(outs))
        with running_program(self.grid, position):
            result = self.fun(*args, **scratch) if isinstance(scratch, dict) else self.fun(*args, *_as_arguments(scratch))
        if result is not None:
            raise ValueError("pallas_call: the kernel must return None and write its results to their references; got "
                             f"{result!r:.100}")
        written = [freeze(ref) for ref in refs]
        return [b.write(x, start, block) for b, x, start, block in zip(blocks[n:], memory, starts[n:], written[n:])]


def _as_arguments(refs: Tree) -> tuple[Tree, ...]:
    return tuple(refs) if isinstance(refs, tuple | list) else (refs,)


def _run(kernel: Callable[..., None], out_shape: Tree, spec: _GridSpec, aliases: dict[int, int],
         args: tuple[Tree, ...]) -> Tree:
    made = _prepare(kernel, out_shape, spec, args)
    flat = trees.tree_leaves(args)
    inputs = [b.pad(x) for b, x in zip(made.ins, flat)]
    memory = [b.make_empty() for b in (*made.outs, *made.scratch)]
    for i, o in aliases.items():
        x = _aliased(made, i, o, flat)
        memory[o] = made.outs[o].pad(x)
    count: Any = math.prod(made.grid)

    def step(i: Value, memory: list[Value]) -> list[Value]:
        return made.run_at(_find_position(i, made.grid), inputs, memory)

    if isinstance(count, int) and count < 2:
        memory = step(np.int32(0), memory) if count else memory
    else:
        memory = lax.fori_loop(0, count, step, memory)
    results = trees.tree_unflatten(made.out_tree, [b.crop(x) for b, x in zip(made.outs, memory)])
    return tuple(results) if isinstance(results, list) else results


def _find_position(i: Value, grid: Sequence[Value]) -> tuple[Value, ...]:
    """Return the index along each axis of the grid of the `i`-th position; the last axis changes fastest."""
    position: list[Value] = []
    i = lax.convert_element_type(i, np.dtype("int32"))  # the index of a loop is weakly typed
    for k in reversed(range(len(grid))):
        size = lax.convert_element_type(grid[k], "int32")
        position.insert(0, lax.rem(i, size) if k else i)
        i = lax.div(i, size)
    return tuple(position)


def _aliased(kernel: _Kernel, i: int, o: int, flat: Sequence[Value]) -> Value:
    if not (0 <= i < len(kernel.ins) and 0 <= o < len(kernel.outs)):
        raise ValueError(f"pallas_call: input_output_aliases must map positions of {len(kernel.ins)} arguments to positions of "
                         f"{len(kernel.outs)} results; got {i}: {o}")
    x, y = kernel.ins[i].aval, kernel.outs[o].aval
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        raise ValueError(f"pallas_call: input_output_aliases must name arguments and results of one type; {kernel.ins[i].name} "
                         f"is {x.str_long()}, {kernel.outs[o].name} is {y.str_long()}")
    return flat[i]


def _prepare(kernel: Callable[..., None], out_shape: Tree, spec: _GridSpec, args: tuple[Tree, ...]) -> _Kernel:
    """Return the kernel with the blocks of its arguments."""
    grid = tuple(spec.grid) if isinstance(spec.grid, tuple | list) else (spec.grid,)
    count = spec.num_scalar_prefetch if isinstance(spec, PrefetchScalarGridSpec) else 0
    if count > len(args):
        raise ValueError(f"pallas_call: the grid_spec has num_scalar_prefetch={count}; got {len(args)} arguments")
    ins = [*_divide("scalar argument", "in_specs", no_block_spec, args[:count]),
           *_divide("argument", "in_specs", spec.in_specs, args[count:])]
    outs = _divide("result", "out_specs", spec.out_specs, out_shape)
    scratch, scratch_tree = trees.tree_flatten(spec.scratch_shapes)
    temporary = [make_blocks(f"scratch_shapes[{k}]", x, None) for k, x in enumerate(scratch)]
    return _Kernel(kernel, grid, ins, outs, temporary, trees.tree_structure(args), trees.tree_structure(out_shape),
                   scratch_tree, trees.tree_structure(args[:count]))


def _is_spec(x: object) -> bool:
    return x is None or isinstance(x, BlockSpec)


def _divide(what: str, option: str, specs: Tree, arrays: Tree) -> list[Blocks]:
    """Return the blocks of each array of a tree."""
    leaves = trees.tree_leaves(arrays)
    flat: list[BlockSpec | None] = [None] * len(leaves)
    if specs is not no_block_spec:
        like = tuple(arrays) if isinstance(arrays, list) else arrays
        given = tuple(specs) if isinstance(specs, list) else specs
        try:
            flat = trees.broadcast_prefix(given, like, is_leaf=_is_spec)
        except ValueError:
            raise ValueError(f"pallas_call: {option} must have a BlockSpec for each {what}, of which there are {len(leaves)}; "
                             f"got {specs!r:.200}") from None
    for entry in flat:
        if not _is_spec(entry):
            raise TypeError(f"pallas_call: {option} must hold BlockSpecs; got {type(entry).__name__}: {entry!r:.60}")
    return [make_blocks(f"{what} {k}", x, entry) for k, (x, entry) in enumerate(zip(leaves, flat))]
