"""lamina without a compiler: `numpy_source.lowering` writes programs as NumPy source text, `numpy_source.runtime` runs it.

Neither loads jaxlib. What crosses between them is a `Lowered` of the format `numpy-source`, as `lamina_ir.interfaces` says.
"""
__contract__ = 1
__version__ = "0.1.0"
