"""`sort` is not linear; its forward row moves tangents with `gather`, which has a transpose."""
__all__: list[str] = []
