"""The reference engine: a small, complete speculative-decoding server on numpy. Imports nothing else of this project."""
