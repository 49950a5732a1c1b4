"""Many runs of `hynet evaluate --out` -> one web page: `runs.py` reads and joins them, `page.py` shows them."""
