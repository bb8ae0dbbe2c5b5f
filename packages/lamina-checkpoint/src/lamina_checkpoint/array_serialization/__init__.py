"""Single arrays in TensorStore, in the interface of JAX: `serialization`, `tensorstore_impl`, `pytree_serialization`.

New programs use `lamina_checkpoint.Checkpointer`, which saves trees atomically and with checksums.
"""
__all__: list[str] = []
