"""`fft` needs no JVP rule here: it is declared linear, so tangents are transformed like values."""
__all__: list[str] = []
