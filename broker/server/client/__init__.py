"""Connected clients: producers and consumers, notifications to them, queue locks."""
