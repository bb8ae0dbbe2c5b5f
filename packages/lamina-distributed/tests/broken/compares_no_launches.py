"""Defect: processes that launch different programs get no error."""
from lamina_distributed._default import *
from lamina_ir import config
from lamina_runtime.extend import processes  # noqa: F401  declares the setting

__contract__ = 1

config.update("agreement", "off")
