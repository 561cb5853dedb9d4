"""Releases compared before any budget is spent: from public facts and noise alone."""
