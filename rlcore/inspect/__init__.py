"""What looks at rewards, algorithms and runs without training: the logic of `rlcore reward`, `diff` and `replay`."""
