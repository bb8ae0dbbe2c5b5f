"""lamina without a compiler: `numpy_source.lowering` lowers programs to NumPy source text, `numpy_source.runtime` runs
it.

Neither loads jaxlib. The lowering passes the runtime a `Lowered` of the format `numpy-source` (see
`lamina_ir.interfaces`).
"""
__contract__ = 1
__version__ = "0.1.0"
