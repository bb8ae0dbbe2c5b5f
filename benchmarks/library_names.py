"""Names of the functions of `library_programs.py`, for the goals in `run.py`, which does not import that module."""

NAMES = ("sort", "argsort", "top_k", "cumsum", "cumprod", "convolve", "fft", "rfft2", "solve", "cholesky", "qr", "inverse",
         "determinant", "svd", "eigh", "norm", "quantile", "median", "unique", "searchsorted", "histogram", "interp",
         "segment_sum", "logsumexp", "softmax", "gelu", "layer_norm", "attention", "one_hot", "einsum_of_four",
         "batched_products", "kron", "take", "scatter_add", "pad_and_roll", "uniform", "normal", "gamma", "beta", "poisson",
         "permutation", "gammaln")
