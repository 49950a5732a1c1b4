"""Photos -> a 3-D model."""
