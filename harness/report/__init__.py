"""Judgements in, text and files out. Runs nothing."""
