"""No incomplete function is linear in anything."""
__all__: list[str] = []
