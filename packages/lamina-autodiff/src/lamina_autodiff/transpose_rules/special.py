"""The incomplete gamma and beta functions are nonlinear, so they have no transpose rules."""
__all__: list[str] = []
