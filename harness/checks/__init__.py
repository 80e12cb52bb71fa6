"""The laws: pure functions over recordings, one family a file. judge.py applies them all."""
