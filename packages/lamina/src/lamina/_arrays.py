"""The packages that functions of arrays need. Derivatives and `vmap` are imported with the first name of `_packages`."""
# The runtime comes first: it installs the hooks through which the other packages dispatch.
import lamina_runtime as _runtime
import lamina_numpy as _numpy  # gives arrays and traced values their operators and methods
