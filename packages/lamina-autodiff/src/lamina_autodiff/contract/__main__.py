"""Runs the contract: `python -m lamina_autodiff.contract [pytest arguments]`."""
from lamina_ir.testing.contracts import main
raise SystemExit(main("lamina_autodiff"))
