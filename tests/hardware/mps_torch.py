"""What torch sees and reaches: SMs, memory, and products of 8192 x 8192 matrices in bf16.

    python mps_torch.py SECONDS [GIB]      # and whether it can allocate so much

It prints a line when it is ready, waits for a line, and then measures.
"""

import json
import sys
import time

import torch

SIZE = 8192
PRODUCT_TFLOP = 2 * SIZE**3 / 1e12
factor = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
for _ in range(5):
    product = factor @ factor
torch.cuda.synchronize()
free, _ = torch.cuda.mem_get_info()
found = {
    "sms": torch.cuda.get_device_properties(0).multi_processor_count,
    "free_gib": round(free / (1 << 30), 1),
}
print("ready", flush=True)
sys.stdin.readline()
began, count = time.monotonic(), 0
while time.monotonic() - began < float(sys.argv[1]):
    for _ in range(5):
        product = factor @ factor
    torch.cuda.synchronize()
    count += 5
found["tflops"] = round(count * PRODUCT_TFLOP / (time.monotonic() - began))
if len(sys.argv) > 2:
    try:
        torch.empty(int(float(sys.argv[2]) * (1 << 30)), dtype=torch.uint8, device="cuda")
        found["alloc"] = "works"
    except torch.OutOfMemoryError as error:
        found["alloc"] = type(error).__name__
print(json.dumps(found), flush=True)
