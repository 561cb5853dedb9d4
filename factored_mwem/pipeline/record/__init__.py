"""The public record of what was spent: what it says, what it rests on, and how anybody checks it."""
