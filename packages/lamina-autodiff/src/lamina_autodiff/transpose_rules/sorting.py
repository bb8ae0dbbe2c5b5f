"""`sort` and `top_k` are nonlinear; their JVP rules move tangents with `gather`, which has a transpose rule."""
__all__: list[str] = []
