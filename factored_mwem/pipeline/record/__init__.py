"""The public record of what was spent: what it states, what it rests on, and how anybody can check it."""
