"""The package's public names are exactly `__all__`, and JAX's parameters have their names and places."""
import inspect
import subprocess
import sys
import types

import pytest

import lamina_nn as nn

SIGNATURES = {
    "relu": "x", "relu6": "x", "celu": "x alpha", "elu": "x alpha", "gelu": "x approximate", "glu": "x axis",
    "leaky_relu": "x negative_slope", "squareplus": "x b",
    "softmax": "x axis where initial", "log_softmax": "x axis where initial",
    "logsumexp": "a axis b keepdims return_sign where", "logmeanexp": "x axis where keepdims",
    "one_hot": "x num_classes dtype axis",
    "standardize": "x axis mean variance epsilon where", "initializers.normal": "stddev dtype",
    "initializers.he_normal": "in_axis out_axis batch_axis dtype", "initializers.orthogonal": "scale column_axis dtype",
    "initializers.truncated_normal": "stddev dtype lower upper", "initializers.zeros": "key shape dtype",
    "initializers.variance_scaling": "scale mode distribution in_axis out_axis batch_axis dtype"}


def test_all_names_the_public_members():
    shown = {name for name in dir(nn) if not name.startswith("_") and not isinstance(getattr(nn, name), types.ModuleType)}
    assert shown | {"initializers", "__version__"} == set(nn.__all__) and len(nn.__all__) == len(set(nn.__all__))
    assert not [name for name in nn.__all__ if callable(getattr(nn, name)) and not getattr(nn, name).__doc__]


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters(name):
    home, _, last = name.rpartition(".")
    found = inspect.signature(getattr(getattr(nn, home) if home else nn, last)).parameters
    assert " ".join(found) == SIGNATURES[name]


def test_an_eager_call_is_one_compiled_call_and_functions_are_made_when_asked_for():
    code = "import lamina_nn as nn; assert 'relu' not in vars(nn) and 'relu' in dir(nn); nn.relu; assert 'relu' in vars(nn)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
