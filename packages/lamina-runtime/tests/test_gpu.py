"""Finding the CUDA plugin: nothing here needs one."""
import importlib.metadata

import pytest
from lamina_runtime import _gpu, _jaxlib


def test_a_plugin_of_another_version_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.1")
    with pytest.raises(RuntimeError, match=rf"jax-cuda13-plugin is 0\.9\.1 but jaxlib is {_jaxlib.VERSION}.*pip install"):
        _gpu._check_version(13)


def test_a_plugin_of_our_version_or_of_none_passes(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: _jaxlib.VERSION)
    _gpu._check_version(13)
    monkeypatch.undo()
    _gpu._check_version(99)  # not installed as a distribution
