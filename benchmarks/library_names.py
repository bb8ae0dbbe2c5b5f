"""Names of the programs of `library_programs.py` and `loop_programs.py`, for the goals of `run.py`."""

NAMES = ("sort", "argsort", "top_k", "cumsum", "cumprod", "convolve", "fft", "rfft2", "solve", "cholesky", "qr", "inverse",
         "determinant", "svd", "eigh", "norm", "quantile", "median", "unique", "searchsorted", "histogram", "interp",
         "segment_sum", "logsumexp", "softmax", "gelu", "layer_norm", "attention", "one_hot", "einsum_of_four",
         "batched_products", "kron", "take", "scatter_add", "pad_and_roll", "uniform", "normal", "gamma", "beta", "poisson",
         "permutation", "gammaln")
LOOPS = ("orbit_gradient", "neuron_gradient", "runge_kutta", "adaptive_steps", "stochastic_paths", "kalman_gradient",
         "hidden_markov_gradient", "metropolis", "hamiltonian", "gated_gradient", "value_iteration", "cart_pole")
