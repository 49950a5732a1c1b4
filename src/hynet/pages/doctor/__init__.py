"""Why photos are missing in a model: `funnel.py` counts, `diagnosis.py` judges, `comparison.py` sets two beside each
other, `graph.py` and `page.py` show it."""
