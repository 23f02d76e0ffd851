"""Send requests: single messages, batches, send-back, and their responses."""
