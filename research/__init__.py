"""Studies and checks of the repository itself; not part of the wheel."""
