"""A lowering to another format: programs are stored as files and run by the NumPy evaluator."""
from lamina_ir import MissingRuleError, UnboundAxisError, dumps, evaluate, prims, walk
from lamina_ir.extend import Placement
from lamina_lowering._default import *

__contract__ = 1


class Lowered:
    format = "lamina-file"

    def __init__(self, closed, name, platform, placement):
        self.closed, self.name, self.platform, self.placement = closed, name, platform, placement
        self.used_args, self.const_args = (True,) * len(closed.in_avals), []
        self.in_avals, self.out_avals = list(closed.in_avals), list(closed.out_avals)
        free, pairs = dict(enumerate(closed.out_avals)), []
        for k, aval in enumerate(closed.in_avals):
            if placement.donated and placement.donated[k]:
                to = next((r for r, a in free.items() if (a.shape, a.dtype) == (aval.shape, aval.dtype)), None)
                free.pop(to, None)
                pairs.append((k, to))
        self.donation = tuple(pairs)

    def bytecode(self):
        return dumps(self.closed)

    def as_text(self):
        return f"{self.name}: {self.closed}"

    def run(self, args):
        return evaluate(self.closed, *args)


def lower(closed_jaxpr, *, name="main", platform="cpu", placement=None):
    for e in walk(closed_jaxpr):
        if e.primitive not in prims.ALL or e.primitive is prims.xmap_p:
            raise MissingRuleError(f"no lowering of `{e.primitive}`")
    if closed_jaxpr.jaxpr.axis_names:
        raise UnboundAxisError(f"the axes {sorted(map(str, closed_jaxpr.jaxpr.axis_names))} are not bound")
    return Lowered(closed_jaxpr, name, platform, placement or Placement())
