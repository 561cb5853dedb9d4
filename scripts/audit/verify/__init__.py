"""Parts of `python scripts/audit verify`: configurations to run, and bugs to plant."""
