"""Choosing: profiles turn opinions into one verdict and one explanation."""
