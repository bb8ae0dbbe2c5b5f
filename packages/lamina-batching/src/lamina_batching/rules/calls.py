"""Calls need no batching rule here: `higher_order` derives it from the region signature."""
__all__: list[str] = []
