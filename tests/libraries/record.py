"""Record the numbers that the programs give with JAX itself.

usage: python tests/libraries/record.py {2024,2026} --python INTERPRETER [program ...]

INTERPRETER must have jax: 0.4.30 for 2024, 0.12 for 2026. The libraries are installed into a folder of their own. Programs
that are named replace their part of the file. A program that gives NaN is refused.
"""
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from library_sets import SETS, Numbers, build_environment, run_program


def is_nan(numbers: Numbers) -> bool:
    """Return whether a number is NaN: it would equal NaN of a wrong computation."""
    return any(math.isnan(x) for values in numbers.values() for x in values)


def main(argv: list[str] | None = None) -> int:
    """Write `recorded-YEAR.json`; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("year", choices=SETS)
    parser.add_argument("--python", required=True, help="an interpreter whose environment has jax")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_intermixed_args(argv)
    chosen = SETS[options.year]
    libraries = build_environment(chosen, options.python)
    version = subprocess.run([options.python, "-c", "import jax; print(jax.__version__)"], check=True, text=True,
                             capture_output=True).stdout.strip()
    programs = options.programs or chosen.programs
    old = json.loads(chosen.recording.read_text())["programs"] if options.programs else {}
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(programs, pool.map(lambda name: run_program(name, [options.python], libraries), programs)))
    failed = {name: errors for name, (printed, errors, _) in results.items() if printed is None}
    failed |= {name: "gives NaN: change the program" for name, (printed, _, _) in results.items()
               if printed is not None and is_nan(printed["numbers"])}
    for name, errors in failed.items():
        print(f"FAILED {name}\n{errors}")
    numbers = {name: printed["numbers"] for name, (printed, _, _) in results.items() if name not in failed}
    lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in sorted({**old, **numbers}.items())]
    chosen.recording.write_text('{"jax": %s, "programs": {\n%s\n}}\n' % (json.dumps(version), ",\n".join(lines)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
