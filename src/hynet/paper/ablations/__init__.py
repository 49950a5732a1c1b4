"""The paper's own studies, trained and scored here: `hynet ablate`.

`plans.py` names the rows of each study and the paper's numbers, `runs.py` trains them with one budget, `scoring.py`
measures them on the same samples, `orderings.py` says which of the paper's orderings show, `study.py` is the whole.
"""
