"""Rotations of space, named as `scipy.spatial.transform` names them."""
from .._rotation import Rotation, Slerp

__all__ = ["Rotation", "Slerp"]
