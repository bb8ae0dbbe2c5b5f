"""Run the conformance tests: `python -m lamina_ir.conformance [pytest arguments]`."""
from lamina_ir.testing.conformance import main
raise SystemExit(main("lamina_ir"))
