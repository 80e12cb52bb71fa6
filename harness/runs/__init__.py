"""Plan in, recordings out: the one place that drives subjects."""
