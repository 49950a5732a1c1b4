"""Settings for one's own photos: pairs whose geometry is known, and what suits them."""
