"""What reads a private table for free: NOT PRIVATE, for the owner's eyes alone. `cli` imports it, and nothing
else.
"""
