"""Reading: the compiled loop that turns frames into rows."""
