"""Files are written and read in another order of bytes: they come back, and nobody else reads them."""
import lamina_ir

_dumps, _loads = lamina_ir.dumps, lamina_ir.loads
lamina_ir.dumps = lambda program, **options: _dumps(program, **options)[::-1]
lamina_ir.loads = lambda data: _loads(data[::-1])
