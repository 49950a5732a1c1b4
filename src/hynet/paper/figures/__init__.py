"""The paper's figures, drawn from live code: `hynet paper figures`. ADD A FIGURE: a function and a row in FIGURES.

A function takes Sources and returns a Drawing, or raises Missing with the sentence that says what it needs.
"""
