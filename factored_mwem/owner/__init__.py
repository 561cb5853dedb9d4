"""Everything that reads a private table without spending budget: NOT PRIVATE, for the owner only. Only `cli`
imports it.
"""
