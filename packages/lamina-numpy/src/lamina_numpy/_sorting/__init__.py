"""Sorting and what rests on it: sets, counts, quantiles."""
