"""A torch process: says which devices it sees, then multiplies matrices until its time is up."""

import json
import sys
import time

import torch

seen = [
    {"name": torch.cuda.get_device_name(number), "memory": properties.total_memory,
     "uuid": str(getattr(properties, "uuid", ""))}
    for number in range(torch.cuda.device_count())
    for properties in [torch.cuda.get_device_properties(number)]
]  # fmt: skip
print(json.dumps(seen), flush=True)
until = time.monotonic() + float(sys.argv[1])
if seen and until > time.monotonic():
    factor = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
    while time.monotonic() < until:
        for _ in range(20):
            product = factor @ factor
        torch.cuda.synchronize()
