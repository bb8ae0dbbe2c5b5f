"""The pages see eight virtual CPU devices."""
from __future__ import annotations

import lamina

lamina.config.update("num_cpu_devices", 8)
