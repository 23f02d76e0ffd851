"""Further queries and changes of topics: create or update, order configuration, allocation."""
