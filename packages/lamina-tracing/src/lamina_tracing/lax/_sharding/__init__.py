"""Shardings that a call gives for its results."""
