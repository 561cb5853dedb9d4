"""What scripts/fuzz and tests/system/test_fuzz.py share: hostile values and ways to damage a file
(`hostile`), and the parsers under test (`targets`).
"""
