"""Batches as files, in folders and stores."""
