"""Eight virtual CPU devices and a separate compilation cache on disk. Both are read when jaxlib starts."""
import atexit
import os
import shutil
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ["LAMINA_CACHE_DIR"] = tempfile.mkdtemp(prefix="lamina-cache-")
atexit.register(shutil.rmtree, os.environ["LAMINA_CACHE_DIR"], ignore_errors=True)
