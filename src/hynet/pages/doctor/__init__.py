"""Diagnosis of photos missing in a model: `funnel.py` counts, `diagnosis.py` judges, `comparison.py` compares two
models, `graph.py` and `page.py` show it."""
