"""Defect: an overridden rule stays after the block."""
from contextlib import contextmanager

from lamina_ir import RuleTable


@contextmanager
def override(self, op, rule):
    self.define(op, rule)
    yield


RuleTable.override = override
