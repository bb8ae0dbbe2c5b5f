"""The functions of `library_programs.py`; `run.py` has goals for each, without loading anything."""

NAMES = ("sort", "argsort", "top_k", "cumsum", "cumprod", "convolve", "fft", "rfft2", "solve", "cholesky", "qr", "inverse",
         "determinant", "svd", "eigh", "norm", "quantile", "median", "unique", "searchsorted", "histogram", "interp",
         "segment_sum", "logsumexp", "softmax", "gelu", "layer_norm", "attention", "one_hot", "einsum_of_four",
         "batched_products", "kron", "take", "scatter_add", "pad_and_roll", "uniform", "normal", "gamma", "beta", "poisson",
         "permutation", "gammaln")
