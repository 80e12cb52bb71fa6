"""Predictions that share nothing with the engine."""
