"""What lies between us and the machine: whether something has changed since it was last used."""
