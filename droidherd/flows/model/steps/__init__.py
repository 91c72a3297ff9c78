"""The steps of flows, one class each: what is written, what is judged, what is done. `registry.py` lists them."""
