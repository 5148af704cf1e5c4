"""Reading natural language: everything that interprets what a text means, behind one port."""
