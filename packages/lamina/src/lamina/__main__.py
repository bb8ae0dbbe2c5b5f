"""`python -m lamina program.py args...`: run a program written for JAX on lamina (see `lamina_compat`)."""
from lamina_compat import run_command_line as main

if __name__ == "__main__":
    raise SystemExit(main())
