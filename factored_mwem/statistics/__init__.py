"""Single statistics: smooth sensitivity, sample and aggregate, learning."""
