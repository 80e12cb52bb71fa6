"""The decoding loop, the fallback rule and the drafters."""
