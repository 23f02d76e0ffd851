"""The fate of single messages: groups that consumed them, and their recorded trace."""
