"""The upgrade table: convert equations that were saved with an older version of a primitive.

If a primitive changes the order of its operands, the meaning of its params, or its name, its version is incremented,
and a function in this table converts equations of the previous version. A new param with a default needs no upgrade:
the default is filled in.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import ProgramError
from .._core.primitive import Primitive, get_primitive
from .._core.jaxpr import Atom, Eqn, Var
from ..typing import Params

__all__ = ["SavedEqn", "UpgradeTable", "upgrade_equation", "upgrades"]


class SavedEqn(NamedTuple):
    """An equation as saved in a file. The primitive may have been changed, renamed or removed since.

    Attributes:
      op: the name of the primitive.
      version: the version of the primitive.
      invars: operands: variables and literals.
      outvars: the variables of the results. The upgraded equations must bind each of them.
      params: the params in the file.

    >>> e = SavedEqn("turn", 1, (), (), {"degrees": 90})
    >>> e._replace(op="rotate", params={"quarters": e.params["degrees"] // 90}).params
    {'quarters': 1}
    """

    op: str
    version: int
    invars: tuple[Atom, ...]
    outvars: tuple[Var, ...]
    params: Params


Upgrade = Callable[[SavedEqn], SavedEqn | Sequence[Eqn]]


class UpgradeTable:
    """(primitive name, version) -> function that converts an equation of that version to the next one.

    >>> from lamina_ir import Primitive
    >>> table = UpgradeTable()
    >>> table.define("shift_of_docs", 1, lambda e: e._replace(params={**e.params, "circular": False}))
    >>> table.step("shift_of_docs", 1)(SavedEqn("shift_of_docs", 1, (), (), {"by": 2})).params
    {'by': 2, 'circular': False}
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Upgrade] = {}

    def define(self, op: Primitive | str, version: int, upgrade: Upgrade) -> None:
        """Set the upgrade of equations of an older version.

        Args:
          op: the primitive or its name; the name may no longer be in use.
          version: the version that the equations were saved with.
          upgrade: `upgrade(e)` takes a `SavedEqn`. It returns another one, made with `e._replace(...)`: of the next
            version of the primitive, or of the primitive and version that it sets. Or it returns a list of current
            equations (`Eqn`), which bind the variables of the results.
        Raises:
          TypeError: `op` is neither a primitive nor a name, or `upgrade` is not a function.
          ValueError: `version` is not an older version, or it has an upgrade already.
        """
        name = op.name if isinstance(op, Primitive) else op
        if not isinstance(name, str):
            raise TypeError(f"upgrades.define: op: expected a Primitive or the name of one; got {op!r:.60}")
        if not callable(upgrade):
            raise TypeError(f"upgrades.define: upgrade: expected a function of a SavedEqn; got {upgrade!r:.60}")
        if type(version) is not int or version < 1 or isinstance(op, Primitive) and version >= op.version:
            newest = f"; {name} is at version {op.version}" if isinstance(op, Primitive) else ""
            raise ValueError(f"upgrades.define: version: expected the number of an older version, 1 or more; got "
                             f"{version!r}{newest}")
        if self._steps.setdefault((name, version), upgrade) is not upgrade:
            raise ValueError(f"upgrades.define: version {version} of `{name}` has an upgrade already")

    def step(self, op: str, version: int) -> Upgrade | None:
        """Return the upgrade of equations of this version, or None.

        Args:
          op: the primitive's name.
          version: the version.
        """
        return self._steps.get((op, version))


upgrades = UpgradeTable()


def _find_primitive(name: str) -> Primitive | None:
    try:
        return get_primitive(name)
    except KeyError:
        return None


def upgrade_equation(e: SavedEqn, table: UpgradeTable = upgrades) -> list[Eqn]:
    """Convert a saved equation to equations of current primitives.

    Args:
      e: the equation.
      table: the upgrades.
    Raises:
      ProgramError: its primitive is unknown, or saved with a newer version, or with an older one that has no upgrade.

    >>> from lamina_ir import shaped
    >>> x, y = Var(shaped((), "float32")), Var(shaped((), "float32"))
    >>> upgrade_equation(SavedEqn("sin", 1, (x,), (y,), {}))[0].primitive
    sin
    """
    seen: set[tuple[str, int]] = set()
    while True:
        prim = _find_primitive(e.op)
        if prim is not None and e.version == prim.version:
            # params that were added later get their defaults, which preserve the old meaning
            missing = {k: v for k, v in prim.defaults.items() if k in prim.params and k not in e.params}
            return [Eqn(prim, list(e.invars), list(e.outvars), {**missing, **e.params})]
        step = table.step(e.op, e.version)
        if step is None or (e.op, e.version) in seen:
            raise _upgrade_error(e, prim)
        seen.add((e.op, e.version))
        try:
            made = step(e)
        except ProgramError:
            raise
        except Exception as error:  # a third-party function on what may be a forged file
            raise ProgramError(f"loads: the upgrade of version {e.version} of `{e.op}` failed: {type(error).__name__}: "
                               f"{error}") from error
        if not isinstance(made, SavedEqn):
            if not isinstance(made, (list, tuple)) or not all(isinstance(new, Eqn) for new in made):
                raise ProgramError(f"loads: the upgrade of version {e.version} of `{e.op}` must give a SavedEqn or a list of "
                                   f"Eqn; got {type(made).__name__}")
            return list(made)
        e = made._replace(version=e.version + 1) if (made.op, made.version) == (e.op, e.version) else made


def _upgrade_error(e: SavedEqn, prim: Primitive | None) -> ProgramError:
    if prim is None:
        return ProgramError(f"loads: the program uses the primitive `{e.op}`, which is not known here; import "
                            "the package that defines it first")
    if e.version > prim.version:
        return ProgramError(f"loads: the program uses version {e.version} of `{e.op}`; this process knows it up to version "
                            f"{prim.version}. Use a newer version of the package that defines it")
    return ProgramError(f"loads: the program uses version {e.version} of `{e.op}`, which is at version {prim.version} here and "
                        f"has no upgrade from it; give one to lamina_ir.extend.upgrades.define({e.op!r}, {e.version}, ...)")
