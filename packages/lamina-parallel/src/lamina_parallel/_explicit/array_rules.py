"""Sharding rules of products, reductions, sorting, windows, gathers, scatters and matrix factorizations."""
from __future__ import annotations

from collections.abc import Callable, Hashable

from .operation import Operation, drop_repeated, unsharded
from .._typing import Entries

__all__ = ["ARRAY_RULES"]

Rule = Callable[[Operation], "Entries | list[Entries]"]


def _dot_general(op: Operation) -> Entries:
    (lc, rc), (lb, rb) = op.params["dimension_numbers"]
    lhs, rhs = op.entries
    batch = tuple([lhs[d] or rhs[e] if op.is_derived else lhs[d] for d, e in zip(lb, rb)])
    if any(rhs[e] != names and not op.is_derived for e, names in zip(rb, batch)):
        op.refuse("batch dimensions of both operands must have the same sharding")
    if not op.is_derived and any(lhs[i] and rhs[j] for i, j in zip(lc, rc)):
        op.refuse("contracted dimensions of both operands are sharded, so the sharding of the result is ambiguous")
    kept = [names for d, names in enumerate(lhs) if d not in (*lc, *lb)]
    kept += [names for d, names in enumerate(rhs) if d not in (*rc, *rb)]
    # The cotangent is the first operand of a transpose: its dimensions have the sharding of the primal value.
    return drop_repeated((*batch, *kept)) if op.is_derived else op.check_distinct((*batch, *kept))


def _convolution(op: Operation) -> Entries:
    numbers = op.params["dimension_numbers"]
    lhs, rhs = op.entries
    ins, kernel, outs = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    if not op.is_derived and any(rhs[d] for d in kernel[1:]):
        op.refuse("only the output features of the kernel may be sharded")
    if not op.is_derived and lhs[ins[1]]:
        op.refuse("input features are summed, so they must not be sharded")
    grouped = op.params["batch_group_count"] > 1 or op.params["feature_group_count"] > 1
    if grouped and (lhs[ins[0]] or rhs[kernel[0]]):
        op.refuse("the batch and the features of a grouped convolution must not be sharded")
    found: list[tuple[Hashable, ...]] = [()] * len(outs)
    found[outs[0]], found[outs[1]] = lhs[ins[0]], rhs[kernel[0]]
    for i, k, o in zip(ins[2:], kernel[2:], outs[2:]):
        found[o] = () if rhs[k] else lhs[i]  # in a transpose, a sharded dimension of both is summed
    before = list(op.out_avals[0].shape)
    for i, o in zip(ins[2:], outs[2:]):
        before[o] = op.avals[0].shape[i]
    return op.check_distinct(op.resize(tuple(found), before, op.out_avals[0].shape))


def _reduce_axes(op: Operation) -> Entries:
    return tuple([names for d, names in enumerate(op.entries[0]) if d not in op.params["axes"]])


def _reduce(op: Operation) -> list[Entries]:
    count = len(op.out_avals)
    if len({*op.entries[:count]}) > 1:
        op.refuse("all operands must have the same sharding")
    kept = tuple([names for d, names in enumerate(op.entries[0]) if d not in op.params["dimensions"]])
    return [kept] * count


def _cumulative(op: Operation) -> Entries:
    op.check_unsharded([op.params["axis"]], f"dimension {op.params['axis']}, along which it accumulates, must not be sharded")
    return op.entries[0]


def _sort(op: Operation) -> list[Entries]:
    found = op.merge()
    d = op.params["dimension"] % len(found)
    if found[d]:
        op.refuse(f"dimension {d}, which is sorted, must not be sharded")
    return [found] * len(op.out_avals)


def _top_k(op: Operation) -> list[Entries]:
    op.check_unsharded([op.params["axis"]], f"dimension {op.params['axis']}, along which it selects, must not be sharded")
    return [op.entries[0]] * 2


def _reduce_window(op: Operation) -> list[Entries]:
    count = len(op.out_avals)
    if len({*op.entries[:count]}) > 1:
        op.refuse("all operands must have the same sharding")
    return [op.resize(op.entries[0], op.avals[0].shape, op.out_avals[0].shape)] * count


def _gather(op: Operation) -> Entries:
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    operand, indices = op.entries
    batching = tuple(numbers.operand_batching_dims)
    op.check_unsharded([d for d, n in enumerate(op.avals[0].shape) if sizes[d] != n and d not in batching],
                       "an indexed dimension must not be sharded")
    if indices and indices[-1]:
        op.refuse("the last dimension of the indices must not be sharded")
    batch_entries = list(indices)
    for d, i in zip(batching, numbers.start_indices_batching_dims):
        if operand[d] and indices[i] and operand[d] != indices[i]:
            op.refuse("batch dimensions of operand and indices must have the same sharding, or none")
        batch_entries[i] = operand[d] or indices[i]
    windows = iter([operand[d] for d in range(len(operand)) if d not in (*numbers.collapsed_slice_dims, *batching)])
    batch = iter(batch_entries[:-1])
    return op.check_distinct(tuple([next(windows) if d in numbers.offset_dims else next(batch)
                                    for d in range(op.out_avals[0].ndim)]))


def _scatter(op: Operation) -> Entries:
    numbers = op.params["dimension_numbers"]
    operand, indices, updates = op.entries
    batching = tuple(numbers.operand_batching_dims)
    if op.is_derived:
        operand, indices, updates = _join_scattered(op)
    windows = [d for d in range(len(operand)) if d not in (*numbers.inserted_window_dims, *batching)]
    indexed = {*numbers.inserted_window_dims, *numbers.scatter_dims_to_operand_dims}
    for d, u in zip(windows, numbers.update_window_dims):
        if op.avals[0].shape[d] != op.avals[2].shape[u]:
            indexed.add(d)
        elif updates[u] and updates[u] != operand[d]:
            op.refuse("the updates must be sharded as the operand")
    op.check_unsharded(sorted(indexed), "an indexed dimension must not be sharded")
    scattered = [names for u, names in enumerate(updates) if u not in numbers.update_window_dims]
    batch_of_indices = {*numbers.scatter_indices_batching_dims}
    for i, names in enumerate(indices[:-1]):
        if i not in batch_of_indices and (names or scattered[i]) and not op.is_derived:
            op.refuse("dimensions of indices and updates that are scattered must not be sharded")
    for d, i in zip(batching, numbers.scatter_indices_batching_dims):
        if not operand[d] == indices[i] == scattered[i]:
            op.refuse("batch dimensions of operand, indices and updates must have the same sharding")
    return operand


def _join_scattered(op: Operation) -> tuple[Entries, Entries, Entries]:
    """Return the entries of a scatter of a transpose, whose operand is zeros without a sharding: it takes that of the
    updates. Updates and indices without a sharding take that of the operand."""
    numbers = op.params["dimension_numbers"]
    operand, indices, updates = [list(entries) for entries in op.entries]
    batching = list(numbers.operand_batching_dims)
    windows = [d for d in range(len(operand)) if d not in (*numbers.inserted_window_dims, *batching)]
    for d, u in zip(windows, numbers.update_window_dims):
        if op.avals[0].shape[d] == op.avals[2].shape[u]:
            operand[d] = operand[d] or updates[u]
    scattered = [u for u in range(len(updates)) if u not in numbers.update_window_dims]
    for d, i in zip(batching, numbers.scatter_indices_batching_dims):
        operand[d] = operand[d] or indices[i] or updates[scattered[i]]
        indices[i], updates[scattered[i]] = indices[i] or operand[d], updates[scattered[i]] or operand[d]
    return op.check_distinct(tuple(operand)), tuple(indices), tuple(updates)


def _dynamic_update_slice(op: Operation) -> Entries:
    operand, update = op.entries[:2]
    if op.is_derived and not (any(operand) and any(update)):  # one is zeros without a sharding
        return op.resize(operand if any(operand) else update, op.avals[1].shape, op.avals[0].shape)
    partial = [d for d, (n, m) in enumerate(zip(op.avals[0].shape, op.avals[1].shape)) if n != m]
    if op.uniform[1] and not any(operand[d] for d in partial):
        return operand
    if operand != update:
        op.refuse("operand and update must have the same sharding")
    return operand


def _matrix_rule(core: int) -> Rule:
    """Return the rule of an operation on the last `core` dimensions of its first operand; the others are a batch."""
    def rule(op: Operation) -> list[Entries]:
        count = op.avals[0].ndim - core
        batch = op.entries[0][:count]
        for entries in op.entries:
            if any(entries[count:]):
                op.refuse("dimensions other than those of a batch must not be sharded")
            if entries[:count] != batch:
                op.refuse("batch dimensions of all operands must have the same sharding")
        return [(*batch, *unsharded(a.ndim - count)) for a in op.out_avals]
    return rule


def _triangular_solve(op: Operation) -> Entries:
    count, b = op.avals[0].ndim - 2, op.entries[1]
    if any(op.entries[0][count:]) or b[count if op.params["left_side"] else count + 1]:
        op.refuse("the matrix and the contracted dimension of the right-hand side must not be sharded")
    if op.entries[0][:count] != b[:count]:
        op.refuse("batch dimensions of both operands must have the same sharding")
    return b


def _replicated(op: Operation) -> list[Entries]:
    return [unsharded(a.ndim) for a in op.out_avals]


def _fft(op: Operation) -> Entries:
    return op.resize(op.entries[0], op.avals[0].shape, op.out_avals[0].shape)


def _same(op: Operation) -> list[Entries]:
    return list(op.entries)


def _names(text: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(text.split(), rule)


ARRAY_RULES: dict[str, Rule] = {
    "dot_general": _dot_general, "conv_general_dilated": _convolution, "reduce": _reduce, "sort": _sort, "top_k": _top_k,
    **_names("argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor", _reduce_axes),
    **_names("cummax cummin cumprod cumsum", _cumulative),
    **_names("reduce_window reduce_window_max reduce_window_min reduce_window_prod reduce_window_sum "
             "select_and_gather_add", _reduce_window),
    "select_and_scatter_add": lambda op: op.entries[1],
    "gather": _gather, "dynamic_update_slice": _dynamic_update_slice,
    **_names("scatter scatter_add scatter_max scatter_min scatter_mul", _scatter),
    **_names("cholesky eig eigh geqrf hessenberg householder_product lu qr schur slogdet solve svd tridiagonal",
             _matrix_rule(2)),
    **_names("lu_pivots_to_permutation tridiagonal_solve", _matrix_rule(1)),
    "triangular_solve": _triangular_solve, "fft": _fft, "optimization_barrier": _same,
    **_names("rng_bit_generator rng_uniform platform_index pure_callback io_callback debug_callback", _replicated),
}
