"""`lamina.experimental.rnn`: long short-term memory, from `lamina_nn.rnn`."""
from lamina_nn.rnn import *
from lamina_nn.rnn import __all__ as __all__
