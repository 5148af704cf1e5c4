"""Sessions of coding agents: the events of a session, and what they say about the person's wishes."""
