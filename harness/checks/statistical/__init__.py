"""The only place where a check holds a tolerance."""
