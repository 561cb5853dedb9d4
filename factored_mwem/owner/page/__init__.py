"""A page that draws a release beside the real table. NOT PRIVATE."""
