"""Requests: what a release must provide, and at what price."""
