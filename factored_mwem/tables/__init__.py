"""Rows at the door: any input as a stream of batches, columns as codes, batches as files."""
