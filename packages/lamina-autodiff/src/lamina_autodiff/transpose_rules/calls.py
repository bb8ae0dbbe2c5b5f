"""Calls: the transpose of a call is a call of the transpose, as its flow says (see flows.py)."""
__all__: list[str] = []
