"""Client APIs that are carried over chat completions, for backends that speak those or are reached through them."""
