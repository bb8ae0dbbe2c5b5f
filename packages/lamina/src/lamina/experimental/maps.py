"""`lamina.experimental.maps`: `xmap`, programs of named axes."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_parallel import AxisName, Mesh, ResourceSet, SerialLoop, serial_loop, xmap

__all__ = ["AxisName", "Mesh", "ResourceSet", "SerialLoop", "serial_loop", "xmap"]

_explain_absent_names(globals())
