"""Run the conformance tests: `python -m lamina_distributed.conformance [pytest arguments]`."""
from lamina_ir.testing.conformance import main
raise SystemExit(main("lamina_distributed"))
