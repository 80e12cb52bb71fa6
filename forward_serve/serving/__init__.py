"""HTTP, what a request may say, who speculates, and the one way out for tokens."""
