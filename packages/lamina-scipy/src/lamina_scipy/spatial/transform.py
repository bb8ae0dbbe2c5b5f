"""Rotations of space, named as `scipy.spatial.transform` names them."""
from .._rotations import Rotation, Slerp

__all__ = ["Rotation", "Slerp"]
