"""The sample inputs of every primitive: loading this module loads the rows of every family. `sampling` says what a row is."""
from . import (
    samples_callbacks,
    samples_calls,
    samples_collectives,
    samples_control,
    samples_convolution,
    samples_custom,
    samples_elementwise,
    samples_factorizations,
    samples_fft,
    samples_indexing,
    samples_maps,
    samples_products,
    samples_random_bits,
    samples_reductions,
    samples_shape,
    samples_solves,
    samples_sorting,
    samples_special,
    samples_windows,
)
from .sampling import (
    Sample,
    Spec,
    away,
    bools,
    complexes,
    determine,
    determined,
    distinct,
    floats,
    ints,
    positives,
    sample,
    samples_of,
    small_ints,
    uints,
    unit,
)

__all__ = ["Sample", "Spec", "away", "bools", "complexes", "determine", "determined",
           "distinct", "floats", "ints", "positives", "sample",
           "samples_of", "small_ints", "uints", "unit"]

FAMILIES = (samples_elementwise, samples_special, samples_shape, samples_reductions, samples_windows, samples_products,
            samples_convolution, samples_factorizations, samples_fft, samples_indexing, samples_sorting,
            samples_solves, samples_random_bits, samples_calls, samples_maps, samples_callbacks, samples_collectives,
            samples_control, samples_custom)
