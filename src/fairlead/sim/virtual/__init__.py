"""The real engine under a virtual clock: jobs come, run and end in simulated time."""
