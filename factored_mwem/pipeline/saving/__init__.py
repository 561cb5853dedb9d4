"""The model file: what a release needs to draw and answer again, all of it public."""
