"""The stock as it is."""
import lamina_ir  # noqa: F401
