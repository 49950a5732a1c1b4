"""What reproduces the paper: its ablations, figures and tables."""
