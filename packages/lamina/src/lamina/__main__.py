"""`python -m lamina program.py args...`: run a program written for JAX on lamina (see `lamina_compat`).

`python -m lamina see program.py args...` runs a program and reports on what it compiles, and `python -m lamina replay FILE`
runs a failing call again (see `lamina_see`).
"""
from lamina_see import main

if __name__ == "__main__":
    raise SystemExit(main())
