"""The run of one command: session, libraries of the nouns, changes, results, exit statuses."""
