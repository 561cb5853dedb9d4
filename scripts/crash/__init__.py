"""Parts of scripts/crash.py."""
