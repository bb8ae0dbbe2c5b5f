"""Scoped settings."""
import subprocess
import sys
import threading

import pytest

from lamina_ir import config
from lamina_ir._config import option as option_module


@pytest.fixture
def option():
    """Return a boolean option; remove it after the test."""
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


def test_overlay_ends_after_error(option):
    with pytest.raises(RuntimeError), option(True):
        raise RuntimeError
    assert option.value is False


def test_overlay_is_visible_only_in_its_thread(option):
    seen = []
    with option(True):
        t = threading.Thread(target=lambda: seen.append(option.value))
        t.start()
        t.join()
    assert seen == [False]


def test_set_changes_other_threads_but_not_overlays(option):
    with option(False):
        option.set(True)
        assert option.value is False
    assert option.value is True


def test_watchers_are_called_for_every_change(option):
    heard = []
    option.watch(lambda value, local: heard.append((value, local)))
    with option(True):
        pass
    option.set(True)
    assert heard == [(False, False), (True, True), (config.UNSET, True), (True, False)]


def test_watcher_added_inside_block_receives_block_value(option):
    heard = []
    with option(True):
        option.watch(lambda value, local: heard.append((value, local)))
    assert heard == [(False, False), (True, True), (config.UNSET, True)]


def test_values_are_checked(option):
    with pytest.raises(ValueError, match="expected True or False"):
        option.set("yes")
    with pytest.raises(ValueError, match="expected one of"):
        config.numpy_rank_promotion.set("maybe")
    with pytest.raises(AttributeError, match="no setting"):
        config.update("nonsense", 1)


def test_option_stands_for_its_value_in_update(option):
    before = option.value
    config.update(option.name, option)
    assert option.value == before


def test_update_by_name_with_or_without_prefix(option):
    config.update("jax_test_option", True)
    assert option.value is True
    config.update("test_option", False)
    assert option.value is False


@pytest.fixture
def option_with_text(monkeypatch):
    """Return a function that makes an option whose environment variable is `text`."""
    def make(text, default, **options):
        monkeypatch.setenv("LAMINA_TEST_FROM_ENV", text)
        return config.Option("test_from_env", default, **options)
    yield make
    config.options.pop("test_from_env", None)


def test_environment_variable_gives_initial_value(option_with_text):
    assert option_with_text("1", False).value is True


def test_keyed_settings_change_the_cache_key():
    key = config.cache_key()
    with config.enable_x64(not config.enable_x64.value):
        assert config.cache_key() != key
    assert config.cache_key() == key


def test_overlay_with_none_does_not_end_outer_overlay():
    heard = []
    config.default_matmul_precision.watch(lambda value, local: heard.append((value, local)))
    try:
        with config.default_matmul_precision("highest"), config.default_matmul_precision(None):
            assert config.default_matmul_precision.value is None
    finally:
        config.default_matmul_precision._watchers.pop()
    assert heard[1:] == [("highest", True), (None, True), ("highest", True), (config.UNSET, True)]


def test_cache_key_contains_every_keyed_option_including_later_ones():
    watched = []
    config.watch_keyed_options(lambda option: watched.append(option.name))
    try:
        later = config.Option("test_keyed_later", 1, keyed=True)
        before = config.cache_key()
        assert "test_keyed_later" in watched and "threefry_partitionable" in watched
        with later(2):
            assert config.keyed_values(config.cache_key())["test_keyed_later"] == 2
            assert config.cache_key() != before
        assert config.cache_key() == before
    finally:
        option_module._keyed_watchers.pop()
        option_module._keyed.remove(config.options.pop("test_keyed_later"))
        option_module._epoch += 1


def test_cache_keys_differ_between_threads():
    keys = {}
    inside = threading.Barrier(2)

    def run(on):
        with config.enable_x64(on):
            inside.wait()
            keys[on] = config.keyed_values(config.cache_key())["enable_x64"]
            inside.wait()

    threads = [threading.Thread(target=run, args=(on,)) for on in (True, False)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert keys == {True: True, False: False}


def test_values_are_attributes_of_config_with_prefix():
    assert config.jax_numpy_rank_promotion == "allow"
    assert config.read("jax_enable_x64") is config.enable_x64.value
    with pytest.raises(AttributeError, match="no setting 'jax_nothing'"):
        config.jax_nothing  # noqa: B018
    assert bool(config.debug_nans) is False


def test_integer_environment_variables_are_parsed(monkeypatch):
    monkeypatch.setenv("LAMINA_TEST_NUMBER", "12")
    try:
        assert config.Option("test_number", 3).value == 12
    finally:
        del config.options["test_number"]


def test_overlays_may_end_out_of_order(option):
    def values():
        with option(True):
            yield option.value

    suspended = values()
    assert next(suspended) is True
    with option(False):
        suspended.close()
        assert option.value is False
    assert option.value is False and option._local.open == ()


def test_attribute_assignment_updates_option(option):
    config.jax_test_option = True
    assert option.value is True and config.test_option is option
    config.test_option = False
    assert option.value is False
    with pytest.raises(AttributeError, match="no setting 'jax_test_optoin'; did you mean 'test_option'"):
        config.jax_test_optoin = True
    with pytest.raises(AttributeError, match="did you mean 'enable_x64'"):
        config.update("jax_enable_x46", True)
    with pytest.raises(AttributeError, match="no setting 'x64'; did you mean 'enable_x64'"):
        config.update("x64", True)


def test_environment_values_are_checked(option_with_text):
    with pytest.raises(ValueError, match="must be 1 or 0, true or false"):
        option_with_text("perhaps", False)
    assert option_with_text("", True).value is True


@pytest.mark.parametrize("text, value", [("off", "off"), ("Auto", "auto"), ("0", False), ("yes", True)])
def test_option_choices_may_mix_strings_and_booleans(option_with_text, text, value):
    assert option_with_text(text, True, choices=(True, False, "off", "auto")).value == value


def test_precision_is_checked_when_set():
    import lamina_ir.prims  # noqa: F401 - which says what a precision is
    with pytest.raises(ValueError, match="default_matmul_precision: .*'tensorfloat32'.*got 'hihg'"):
        config.default_matmul_precision.set("hihg")
    with config.default_matmul_precision("highest"):
        assert config.default_matmul_precision.value == "highest"


def test_every_option_has_help_text():
    for option in config.options.values():
        assert option.help and option.__doc__.lower().startswith(option.help.lower()), option.name


def test_dunder_attributes_are_missing_without_loading_difflib():
    code = "import sys\nfrom lamina_ir.config import generation\nassert 'difflib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute '__path__'"):
        config.__path__  # noqa: B018


def test_ever_enabled_reports_whether_option_was_on():
    option = config.Option("for_this_test_alone", False)
    try:
        assert not option.ever_enabled
        with option(False):
            assert not option.ever_enabled
        option.set(False)
        assert not option.ever_enabled
        with option(True):
            assert option.ever_enabled
        assert option.ever_enabled and not option.value
        other = config.Option("for_this_test_too", False)
        other.set(True)
        assert other.ever_enabled and config.Option("and_this", True).ever_enabled
    finally:
        for name in ("for_this_test_alone", "for_this_test_too", "and_this"):
            config.options.pop(name, None)


def test_enabled_in_all_threads_reports_whether_option_is_on():
    option = config.Option("known_everywhere", False)
    try:
        assert not option.ever_enabled and not option.enabled_in_all_threads
        with option(True):
            assert option.ever_enabled and not option.enabled_in_all_threads  # off in other threads
        option.set(True)
        assert option.enabled_in_all_threads
        with option(True):
            assert option.enabled_in_all_threads
        with option(False):
            assert not option.enabled_in_all_threads
        assert not option.enabled_in_all_threads  # a thread may still be inside such a block
        option.set(False)
        assert option.ever_enabled and not option.enabled_in_all_threads
    finally:
        del config.options["known_everywhere"]


def test_unknown_setting_error_does_not_list_all_settings():
    for name in ("jax_enable_x46", "nonsense"):
        with pytest.raises(AttributeError) as found:
            config.update(name, 1)
        assert len(str(found.value)) < 120
    assert "config.values" in str(found.value) and "jax_enable_x64" in config.values
