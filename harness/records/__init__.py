"""The values that travel between rooms, and their JSON. Knows nothing above it."""
