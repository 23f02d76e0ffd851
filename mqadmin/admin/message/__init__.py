"""Messages: query by id, key, offset or time, send, follow a topic, decode an id."""
