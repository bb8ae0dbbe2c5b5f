"""Defect: Python scalars are not weakly typed."""
import lamina_ir

_aval_of = lamina_ir.aval_of
lamina_ir.aval_of = lambda x: _aval_of(x).strip_weak_type()
