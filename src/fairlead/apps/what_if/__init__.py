"""`fairlead what-if`: what would change, computed on the live state; nothing is written.

`workload.py` reads the pods of manifests, `changes.py` applies changes to what is known of the
cluster, `outlook.py` runs the engine forward with and without them, `what_if_view.py` prints it.
"""
