"""Controllers and broker containers of RocketMQ 5: their metadata, elections and settings."""
