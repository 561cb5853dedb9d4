"""Parts of scripts/verify.py: configurations to run, and bugs to plant."""
