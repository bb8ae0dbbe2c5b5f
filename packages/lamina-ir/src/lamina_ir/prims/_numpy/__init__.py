"""NumPy evaluation of primitives that NumPy has no function for: matrices, special functions, without warnings."""
