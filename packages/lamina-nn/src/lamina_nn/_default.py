"""Names of the default implementation, for the facade and for plugins: `from lamina_nn._default import *`."""
from lamina_numpy.extend import publish as _publish
from lamina_numpy.special import logsumexp
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from . import initializers
from ._activations import (celu, elu, gelu, glu, hard_sigmoid, hard_silu, hard_swish, hard_tanh, identity, leaky_relu, log1mexp,
                           log_sigmoid, mish, relu, relu6, selu, sigmoid, silu, soft_sign, softplus, sparse_plus,
                           sparse_sigmoid, squareplus, swish, tanh)
from ._attention import dot_product_attention
from ._scaled_products import get_scaled_dot_general_config, scaled_dot_general, scaled_matmul
from ._softmax import log_softmax, logmeanexp, one_hot, softmax, standardize
from ._version import __version__

__all__ = ["__version__", "celu", "dot_product_attention", "elu", "gelu", "get_scaled_dot_general_config", "glu",
           "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "initializers", "leaky_relu",
           "log1mexp", "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish", "one_hot", "relu",
           "relu6", "scaled_dot_general", "scaled_matmul", "selu", "sigmoid", "silu", "soft_sign", "softmax",
           "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
_publish(globals())
