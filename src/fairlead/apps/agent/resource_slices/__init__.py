"""ResourceSlices of a node without a DRA driver: what they say, and when they are written."""
