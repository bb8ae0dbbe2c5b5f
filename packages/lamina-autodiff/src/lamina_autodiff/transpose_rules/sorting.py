"""`sort` and `top_k` are not linear; their forward rows move tangents with `gather`, which has a transpose."""
__all__: list[str] = []
