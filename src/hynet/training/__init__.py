"""Training: one loop over a `Task`, from a recipe to a run folder.

`train.py` is `hynet.train`, from the recipe to the result; `tasks.py` lists what can be trained, `loop.py` is the loop.
`configuration.py` has the settings of runs, `recipes.py` names the paper's.
"""
