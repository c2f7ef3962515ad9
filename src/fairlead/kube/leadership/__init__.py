"""One scheduler decides at a time: election by a Lease, and writes that only a leader sends."""
