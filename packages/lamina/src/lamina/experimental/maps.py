"""`lamina.experimental.maps`: `xmap`, programs of named axes."""
from lamina_parallel import AxisName, Mesh, ResourceSet, SerialLoop, serial_loop, xmap

__all__ = ["AxisName", "Mesh", "ResourceSet", "SerialLoop", "serial_loop", "xmap"]
