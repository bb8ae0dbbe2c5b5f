"""The sample inputs of all primitives. Importing this module loads the samples of every family; see `sampling`."""
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft, indexing,
               maps, products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)
from ..sampling import (Sample, Spec, away, bools, complexes, register_canonicalizer, canonicalize_results, distinct,
                        floats, ints, positives, sample, samples_of, small_ints, uints, unit)

__all__ = ["Sample", "Spec", "away", "bools", "canonicalize_results", "complexes", "distinct", "floats", "ints",
           "positives", "register_canonicalizer", "sample", "samples_of", "small_ints", "uints", "unit"]

FAMILIES = (elementwise, special, shape, reductions, windows, products,
            convolution, factorizations, fft, indexing, sorting,
            solves, random_bits, random_keys, calls, maps,
            callbacks, collectives,
            control, custom)
