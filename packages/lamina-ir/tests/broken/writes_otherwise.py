"""Defect: files are written and read in reverse byte order: they round-trip, but no other reader can read them."""
import lamina_ir

_dumps, _loads = lamina_ir.dumps, lamina_ir.loads
lamina_ir.dumps = lambda program, **options: _dumps(program, **options)[::-1]
lamina_ir.loads = lambda data: _loads(data[::-1])
