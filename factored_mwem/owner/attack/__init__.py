"""Attacks: NOT PRIVATE. What somebody who knows everybody else learns of one person from such releases.

Reading order: `scores` (what is read off one release), `attack` (targets, the releases with and without each,
canaries, the result), `bounds` (from how often something happened to a lower bound), `packages` (the same of
linked tables).
"""
