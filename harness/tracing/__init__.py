"""Device opens by strace, decoys, and the verdict "blind"."""
