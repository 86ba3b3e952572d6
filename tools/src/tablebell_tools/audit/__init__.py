"""The audit of a live system: what one level has, the next must have too. Reads the database and nothing else."""
