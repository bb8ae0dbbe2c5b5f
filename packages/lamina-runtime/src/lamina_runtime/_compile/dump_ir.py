"""Write each program to the folder `config.dump_ir_to` before it is compiled or loaded.

`config.dump_ir_modes` selects the forms: StableHLO text, jaxpr text.
"""
from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING

from lamina_ir import ClosedJaxpr, config

from .._typing import SettingValue

if TYPE_CHECKING:
    from lamina_lowering import Lowered

__all__ = ["dump", "dump_ir_modes", "dump_ir_to", "include_debug_info_in_dumps"]

_MODES = ("stablehlo", "jaxpr")


def _check_folder(value: SettingValue) -> None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"config dump_ir_to: expected a folder, or '' for none; got {value!r:.200}")


def _check_modes(value: str) -> None:
    unknown = [mode for mode in value.split(",") if mode not in _MODES] if value else []
    if unknown:
        raise ValueError("config dump_ir_modes: expected 'stablehlo', 'jaxpr', or both separated by a comma; got "
                         f"{value!r:.200}")


dump_ir_to = config.Option("dump_ir_to", None, check=_check_folder, means={"": None},
                           help="folder to which each program is written before it is compiled, see dump_ir_modes")
dump_ir_modes = config.Option("dump_ir_modes", "stablehlo", check=_check_modes, kind=str,
                              help="comma-separated texts that dump_ir_to writes: 'stablehlo', 'jaxpr'; '' for none")
include_debug_info_in_dumps = config.Option("include_debug_info_in_dumps", True,
                                            help="the texts of dump_ir_to show scopes and equation numbers")
_count = itertools.count()


def dump(call: str, name: str, lowered: Lowered, closed: ClosedJaxpr) -> None:
    """Write a program to the folder `config.dump_ir_to`.

    The files are numbered, e.g. `lamina_ir0003_jit_step.mlir` with the StableHLO and `lamina_ir0003_jit_step.jaxpr.txt`
    with the jaxpr.

    Args:
      call: the kind of call, as `jit`.
      name: the name of the function.
      lowered: the lowered program.
      closed: the jaxpr from which it was lowered.
    Raises:
      OSError: the folder cannot be written to.
    """
    folder = os.path.expanduser(os.fspath(dump_ir_to.value))
    safe = re.sub(r"[^\w.-]+", "_", f"{call}_{name}")[:100]
    path = os.path.join(folder, f"lamina_ir{next(_count):04}_{safe}")
    modes = dump_ir_modes.value.split(",")
    if "jaxpr" in modes:
        _write(f"{path}.jaxpr.txt", f"{closed}\n")
    if "stablehlo" in modes:
        _write(f"{path}.mlir", lowered.as_text(debug_info=include_debug_info_in_dumps.value))


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    except OSError as e:
        raise OSError(e.errno, f"config dump_ir_to: cannot write {path}: {e.strerror}; set another folder, "
                               "or ''") from e
