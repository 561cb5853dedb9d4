"""What a release says about its table, with error bars: from the public model alone, free.

Reading order: `terms` (a query as products of per-attribute weights), then what is asked and how sure it is.
"""
