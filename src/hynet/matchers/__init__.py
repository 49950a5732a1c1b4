"""Features x Features -> Matches."""
