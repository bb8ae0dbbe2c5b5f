"""`python -m lamina program.py args...`: run a program written for JAX on lamina (see `lamina_compat`).

`python -m lamina see program.py args...` runs a program and reports on what it compiles (see `lamina_see`).
"""
from sys import argv as _argv

from lamina_compat import run_command_line as main
from lamina_see import COMMANDS, run_command_line

if __name__ == "__main__":
    raise SystemExit(run_command_line(_argv[1:]) if _argv[1:2] and _argv[1] in COMMANDS else main())
