"""Samplers: what draws completions. `embedded` runs on the trainer's own parameters, in the trainer's process."""
