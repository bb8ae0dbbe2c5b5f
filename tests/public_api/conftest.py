"""The roof's tests import the tables that stand beside them."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `call_forms`
