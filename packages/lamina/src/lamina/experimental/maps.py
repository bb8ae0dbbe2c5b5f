"""`lamina.experimental.maps`: `xmap`, programs of named axes."""
from lamina_parallel import AxisName, Mesh, ResourceSet, xmap

__all__ = ["AxisName", "Mesh", "ResourceSet", "xmap"]
