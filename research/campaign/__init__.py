"""Broken inputs and faults, by the thousand: `make fuzz CASES=100000` and `make faults`. Not part of the package."""
