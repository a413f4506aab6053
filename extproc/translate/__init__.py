"""Translation between a client API and a backend's API schema; ``table`` says which pairs exist."""
