"""Documents about a release: a page for people, and records for catalogues. They hold public facts only,
except where they say NOT PRIVATE.
"""
