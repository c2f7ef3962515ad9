"""A copy of the API server's objects that loses and invents none."""
