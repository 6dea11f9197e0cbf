"""Which accelerators this host has: NVIDIA (NVML), AMD (sysfs/KFD), simulated; any mix. Facts, no policy."""
