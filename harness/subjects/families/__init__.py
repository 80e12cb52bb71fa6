"""Engines that come as a library: small programs that put each behind a command line. They know nothing of the harness."""
