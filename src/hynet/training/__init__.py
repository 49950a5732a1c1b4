"""Training descriptors, and the detector Key.Net.

`train.py` is `hynet.train`; `loop.py` is the run, read top to bottom; `configuration.py` says what a run is, `recipes.py`
names the paper's, `descriptor.py` makes what they name. Batches come from `sampling.py`, `augmentation.py` and `batches.py`,
speed from `tiling.py`, several processes from `distributed.py`; `validation.py` chooses the best weights;
`checkpoints.py` and `logbook.py` are what stays on disk, `curves.py` and `card.py` what is made of it.
"""
