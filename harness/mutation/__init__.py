"""Plants the faults of the catalogue into a copy of the subject and proves that the named checks fail."""
