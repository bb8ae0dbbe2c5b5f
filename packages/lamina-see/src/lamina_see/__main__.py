"""`python -m lamina_see program.py args...`: the command `python -m lamina see`."""
import sys

from ._command import run_see

if __name__ == "__main__":
    raise SystemExit(run_see(sys.argv[1:]))
