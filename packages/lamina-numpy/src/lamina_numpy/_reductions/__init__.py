"""Along axes: sums, extremes, means, running totals."""
