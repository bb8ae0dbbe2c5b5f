"""Scoped settings."""
import threading

import pytest

from lamina_ir import config


@pytest.fixture
def option():
    made = config.Option("test_option", False, help="only here")
    yield made
    del config.options["test_option"]


def test_overlays_nest_and_end(option):
    with option(True):
        assert option.value is True
        with option(False):
            assert option.value is False
        assert option.value is True
    assert option.value is False


def test_overlays_end_after_an_error(option):
    with pytest.raises(RuntimeError), option(True):
        raise RuntimeError
    assert option.value is False


def test_an_overlay_is_seen_only_in_its_thread(option):
    seen = []
    with option(True):
        t = threading.Thread(target=lambda: seen.append(option.value))
        t.start()
        t.join()
    assert seen == [False]


def test_set_reaches_other_threads_but_not_overlays(option):
    with option(False):
        option.set(True)
        assert option.value is False
    assert option.value is True


def test_watchers_hear_of_every_change(option):
    heard = []
    option.watch(lambda value, local: heard.append((value, local)))
    with option(True):
        pass
    option.set(True)
    assert heard == [(False, False), (True, True), (None, True), (True, False)]


def test_values_are_checked(option):
    with pytest.raises(ValueError, match="expected True or False"):
        option.set("yes")
    with pytest.raises(ValueError, match="expected one of"):
        config.numpy_rank_promotion.set("maybe")
    with pytest.raises(AttributeError, match="no setting"):
        config.update("nonsense", 1)


def test_update_by_name_with_or_without_prefix(option):
    config.update("jax_test_option", True)
    assert option.value is True
    config.update("test_option", False)
    assert option.value is False


def test_environment_gives_the_first_default(monkeypatch):
    monkeypatch.setenv("LAMINA_TEST_FROM_ENV", "1")
    try:
        assert config.Option("test_from_env", False).value is True
    finally:
        del config.options["test_from_env"]


def test_keyed_settings_change_the_cache_key():
    key = config.cache_key()
    with config.enable_x64(not config.enable_x64.value):
        assert config.cache_key() != key
    assert config.cache_key() == key
