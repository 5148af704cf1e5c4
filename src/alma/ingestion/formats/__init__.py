"""The formats that are understood: how each is told by its content, and how it is read."""
