"""The other ways to spend: questions one by one, sketches, single statistics, graphs."""
