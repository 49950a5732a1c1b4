"""Photo -> Features: detectors, descriptors, whole extractors, and the storing of what they find."""
