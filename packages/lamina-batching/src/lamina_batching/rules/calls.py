"""Calls: the batch of a call is a call of the batched program, as its flow says (see flows.py)."""
__all__: list[str] = []
