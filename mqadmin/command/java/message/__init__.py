"""Java's commands about messages: queries, printing, sending."""
