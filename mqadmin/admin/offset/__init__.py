"""Consumer offsets: show and reset."""
