"""The decision log: every event that the engine was given, and every instruction that it returned.

`records.py` is the form of one record, `frames.py` that of a file. `recording.py` is an engine that
records itself, `log_writer.py` writes files beside the event loop. `replay.py` gives the events to
a fresh engine and compares, `anonymise.py` writes a copy without names.
"""
