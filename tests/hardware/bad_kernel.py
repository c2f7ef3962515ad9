"""A program with a mistake: its kernel writes to an address that it does not have (Xid 31).

It needs the driver's own library only. The GPU takes no harm; the program ends.
"""

import ctypes
import sys

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry wild()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 4096;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()


def expect(status: int) -> None:
    if status:
        sys.exit(f"CUDA error {status}")


expect(cuda.cuInit(0))
expect(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
expect(cuda.cuCtxSetCurrent(context))
expect(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
expect(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"wild"))
expect(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
print(cuda.cuCtxSynchronize())
