"""Live screens, and quantities as they show them; imports rich."""
