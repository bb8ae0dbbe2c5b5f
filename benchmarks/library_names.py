"""Names of the programs of `library_programs.py`, `loop_programs.py` and `operation_programs.py`, for the goals of `run.py`."""

NAMES = ("sort", "argsort", "top_k", "cumsum", "cumprod", "convolve", "fft", "rfft2", "solve", "cholesky", "qr", "inverse",
         "determinant", "svd", "eigh", "norm", "quantile", "median", "unique", "searchsorted", "histogram", "interp",
         "segment_sum", "logsumexp", "softmax", "gelu", "layer_norm", "attention", "one_hot", "einsum_of_four",
         "batched_products", "kron", "take", "scatter_add", "pad_and_roll", "uniform", "normal", "gamma", "beta", "poisson",
         "permutation", "gammaln")
LOOPS = ("orbit_gradient", "neuron_gradient", "runge_kutta", "adaptive_steps", "stochastic_paths", "kalman_gradient",
         "hidden_markov_gradient", "metropolis", "hamiltonian", "gated_gradient", "value_iteration", "cart_pole")
# name -> goal: the part of the time of the fastest other system
OPERATIONS = {
    "depthwise": 0.1, "depthwise_input_gradient": 0.1, "depthwise_kernel_gradient": 0.15, "depthwise_sequence": 0.1,
    "groups": 0.4, "groups_kernel_gradient": 0.1, "convolution": 1.0, "convolution_kernel_gradient": 1.0,
    "convolution_loop": 0.2, "volume_kernel_gradient": 0.3, "transposed_kernel_gradient": 0.3,
    "pooling_gradient": 0.2, "overlapping_pooling_gradient": 0.6, "softmax": 1.0, "softmax_gradient": 1.0,
    "layer_norm": 1.0, "layer_norm_gradient": 1.0, "bfloat16_product": 1.0, "top_k": 1.0, "argmax_of_columns": 1.0,
    "histogram": 1.0, "cumulative_sum": 0.6, "cumulative_sum_of_rows": 0.8, "sort_of_pairs": 0.6, "argsort": 0.6,
    "sort_by_two_keys": 1.0, "top_k_of_a_long_row": 1.0, "top_k_of_integers": 0.2, "bfloat16_matrix_times_vector": 1.0,
    "take_along_axis": 1.0, "small_products": 1.0, "padding": 1.0,
    **dict.fromkeys(("groups_input_gradient", "convolution_input_gradient", "pointwise_convolution",
                     "pointwise_convolution_gradient", "pooling", "bfloat16_product_gradient", "top_k_gradient",
                     "cumulative_sum_gradient", "cumulative_product", "cumulative_product_gradient", "sort_gradient",
                     "take_rows", "take_rows_gradient", "small_products_gradient"), 1.0)}
