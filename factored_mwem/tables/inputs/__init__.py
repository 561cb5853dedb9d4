"""A table from wherever it is, as a stream of batches."""
