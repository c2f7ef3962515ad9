"""The commands of `fairlead`: options to what a program takes. `apps/cli.py` lists them."""
