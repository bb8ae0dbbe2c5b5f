"""`print_environment_info`: what it lists, what it hides, and that it never raises."""
import os
import platform

import lamina_runtime as lr
import pytest
from lamina_ir import config
from lamina_runtime import environment


def report() -> str:
    text = lr.print_environment_info(return_string=True)
    assert isinstance(text, str)
    return text


def test_report_has_versions_devices_and_layers():
    lines = report().splitlines()
    titles = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert titles == ["lamina", "jaxlib", "numpy", "python", "device info", "process_count", "platform", "packages", "layers",
                      "settings that differ from their defaults", "environment variables"]
    assert any(line.startswith("  lamina-ir: ") and line.endswith("loaded") for line in lines)
    assert any(line.startswith("  runtime: lamina_runtime ") for line in lines)
    assert str(lr.devices()[0]) in report()


def test_report_has_changed_settings_only():
    with config.legacy_prng_key("warn"):
        assert "  legacy_prng_key = 'warn'" in report().splitlines()
    assert "legacy_prng_key" not in report()


def test_report_hides_secrets_and_the_home_folder(monkeypatch):
    monkeypatch.setenv("LAMINA_TOKEN", "guarded")
    monkeypatch.setenv("JAX_MTLS_KEY_FILE", "guarded")
    monkeypatch.setenv("XLA_SERVICE", "https://user:guarded@host/path")
    monkeypatch.setenv("XLA_DUMP", os.path.expanduser("~/dump"))
    monkeypatch.setenv("UNRELATED_VARIABLE", "guarded")
    text = report()
    assert "guarded" not in text and "UNRELATED" not in text and platform.node() not in text.split()
    assert "  LAMINA_TOKEN=<hidden>" in text and "https://<hidden>@host/path" in text and "XLA_DUMP=~/dump" in text


@pytest.mark.parametrize("name", ["devices", "local_device_count", "process_count"])
def test_report_shows_parts_that_cannot_be_read(monkeypatch, name):
    def fail() -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr(environment.backends, name, fail)
    assert "not available (RuntimeError: no such device)" in report() and "numpy: " in report()
