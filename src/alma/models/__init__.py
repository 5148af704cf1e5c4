"""Language models behind one port. None is needed; each is asked only when the person allowed it."""
