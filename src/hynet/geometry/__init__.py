"""Geometry of two photos of one scene: `two_views`, `estimators` of it, and `metrics`."""
