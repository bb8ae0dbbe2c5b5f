"""`dot_general` needs no JVP rule here: it is declared bilinear, so the product rule applies."""
__all__: list[str] = []
