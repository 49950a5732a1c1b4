"""The web page of `hynet app`: match two photos, compare two models, reconstruct many photos.

A request to the `server` passes `guard` (who may ask) and is given one of the `answers`, which work on a visit (one
open page, with all that it holds) and wait at a `desk` for their turn. The page itself is
plain HTML, CSS and JavaScript in `web/`.
"""
