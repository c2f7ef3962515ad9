"""Limits that several rooms share."""

#: GPUs of one node listed one by one; what is beyond is counted. Machines have 16 today, and a
#: chassis of single-root PCIe switches up to 64.
MOST_GPUS = 64
