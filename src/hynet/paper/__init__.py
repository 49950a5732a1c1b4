"""The paper's ablations, figures and tables, made again."""
