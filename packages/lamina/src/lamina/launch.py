"""`python -m lamina.launch -n 4 program.py ...`: a program in several processes, from `lamina_runtime.launch`."""
from lamina_runtime.launch import *
from lamina_runtime.launch import __all__ as __all__

if __name__ == "__main__":
    raise SystemExit(main())
