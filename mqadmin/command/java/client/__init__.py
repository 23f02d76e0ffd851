"""Java's commands about producers, consumers, groups and offsets."""
