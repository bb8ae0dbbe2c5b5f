"""`python -m lamina.launch -n 4 program.py ...`: a program in several processes, from `lamina_distributed.launch`."""
from lamina_distributed.launch import *
from lamina_distributed.launch import __all__ as __all__

if __name__ == "__main__":
    raise SystemExit(main())
