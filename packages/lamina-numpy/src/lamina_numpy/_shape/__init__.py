"""Arrangement: axes, joining, tiling, bytes and bits."""
