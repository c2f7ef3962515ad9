"""A simulated DRA driver: what drivers publish about the machines of a simulated cluster."""
