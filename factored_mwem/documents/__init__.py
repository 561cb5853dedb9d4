"""What a release is filed and shown with: a page to look at, and records for catalogues. Public facts only,
but for what says NOT PRIVATE.
"""
