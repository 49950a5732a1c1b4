"""Models of whole scenes, the ETH benchmark (Table 2)."""
