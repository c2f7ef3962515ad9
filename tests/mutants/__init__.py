"""Small faults put into src, and the tests that notice them: `make mutants`."""
