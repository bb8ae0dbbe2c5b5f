"""Calls: the derivative of a call is a call of the derivative, as its flow says (see flows.py)."""
__all__: list[str] = []
