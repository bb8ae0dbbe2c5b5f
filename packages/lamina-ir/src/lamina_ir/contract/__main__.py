"""Runs the contract: `python -m lamina_ir.contract [pytest arguments]`."""
from lamina_ir.testing.contracts import main
raise SystemExit(main("lamina_ir"))
