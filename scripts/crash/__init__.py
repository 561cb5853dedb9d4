"""Parts of scripts/crash."""
