"""Mathematical answers: found in a completion, read, compared, graded."""
