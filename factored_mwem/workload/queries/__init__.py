"""Query kinds, one file each."""
