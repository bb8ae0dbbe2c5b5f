"""Calls need no JVP rule here: `engine.higher_order` derives it from the region signature."""
__all__: list[str] = []
