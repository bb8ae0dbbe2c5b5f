"""`conv_general_dilated` is bilinear: its facts say so, and it needs no row."""
__all__: list[str] = []
