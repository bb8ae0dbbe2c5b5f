"""The default implementation, unchanged."""
import lamina_ir  # noqa: F401
