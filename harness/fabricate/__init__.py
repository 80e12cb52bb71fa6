"""Containers, tokenizers and draft packs whose behaviour is prescribed: the only code that writes model bytes."""
