"""One element at a time: mathematics, powers, division, rounding, logic."""
