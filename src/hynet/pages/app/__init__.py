"""The web page of `hynet app`: match two photos, compare two models, reconstruct many photos.

A request passes `guard` (who may ask), reaches `server` (what can be asked), works on a `visit` (one open page, with
all that it holds) and waits at a `desk` for its turn. The page itself is plain HTML, CSS and JavaScript in `web/`.
"""
