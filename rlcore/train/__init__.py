"""The torch trainer: a model, its heads and readouts, microbatches, updates. Blind to the algorithm."""
