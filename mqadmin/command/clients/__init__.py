"""Commands about connected clients: producers, running information, requests to one consumer."""
