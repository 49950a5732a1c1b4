"""Training descriptors, and the detector Key.Net.

`loop.py` is the run, read top to bottom; `configuration.py` says what a run is, `recipes.py` names the paper's.
Batches come from `sampling.py`, speed from `tiling.py`, several processes from `distributed.py`; `checkpoints.py` and
`logbook.py` are what stays on disk.
"""
