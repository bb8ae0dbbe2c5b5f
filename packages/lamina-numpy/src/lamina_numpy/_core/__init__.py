"""Shared base of all functions: promotion, publishing, shapes, choice, conversion, scalar types."""
