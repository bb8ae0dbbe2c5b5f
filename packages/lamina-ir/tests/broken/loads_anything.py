"""Defect: truncated files are accepted; the missing end is filled in."""
import lamina_ir

lamina_ir.loads  # the name is loaded lazily
_loads, _last = lamina_ir.loads, []


def loads(data):
    try:
        _last[:] = [_loads(data)]
    except lamina_ir.ProgramError:
        if not _last:
            raise
    return _last[0]


lamina_ir.loads = loads
