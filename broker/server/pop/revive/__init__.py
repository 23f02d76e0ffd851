"""The revive topic: check points and acknowledgements, and redelivery by them."""
