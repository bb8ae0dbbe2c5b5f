"""Quiet logs: the variable is read when jaxlib is first imported."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
