"""Measurements to run by hand; nothing here is a test."""
