"""Shares that NVIDIA MPS enforces: one control daemon for each GPU that pods share.

How it is run, and why: docs/adr/0031-how-mps-is-run.md.
"""
