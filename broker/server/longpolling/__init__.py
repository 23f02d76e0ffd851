"""Long polling: suspended pulls and the timer of their deadlines."""
