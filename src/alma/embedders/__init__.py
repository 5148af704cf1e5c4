"""Embedders: text to vector. `registry.create` picks one by name."""
