"""A server that speaks llama.cpp's dialect and says the alphabet."""
