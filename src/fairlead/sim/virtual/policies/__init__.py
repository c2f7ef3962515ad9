"""Policies of the simulator, one file each; `registry.py` lists them."""
