"""`python -m lamina_compat`: as `python -m lamina`."""
from . import run_command_line as main

if __name__ == "__main__":
    raise SystemExit(main())
