"""Corrections, one a file: weights or masks for the mismatch between the sampler and the trainer."""
