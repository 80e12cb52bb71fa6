"""How each engine under test is described, started, asked and ended."""
