"""A fitted model: what was released, and nothing else."""
