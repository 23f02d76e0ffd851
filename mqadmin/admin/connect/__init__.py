"""How a session reaches its cluster: credentials and TLS, name server discovery over HTTP.

Both import libraries that cost more than a whole command, so a session without them loads neither.
"""
