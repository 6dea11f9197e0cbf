"""The mains of GKM's processes: they read configuration, wire rooms together, start and stop. Nothing else."""
