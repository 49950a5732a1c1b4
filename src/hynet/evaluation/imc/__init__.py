"""The Image Matching Challenge's two tasks (appendix)."""
