"""Connected clients: producers, the running information of consumers, requests to one consumer."""
