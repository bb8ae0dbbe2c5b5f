"""Reduce log output: jaxlib reads the variable when it is first imported."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
