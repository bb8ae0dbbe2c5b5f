"""Special functions by family; `lamina_scipy.special` shows them."""
