"""`lamina.sharding`: how arrays lie on devices, from `lamina_runtime`."""
from lamina_runtime import GSPMDSharding, Sharding, SingleDeviceSharding

__all__ = ["GSPMDSharding", "Sharding", "SingleDeviceSharding"]
