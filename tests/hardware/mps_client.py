"""A small CUDA program: does what its arguments say, in order, and prints a JSON line for each.

    info  rate:SECONDS  alloc:GIB  hold:SECONDS  fault  sleep:SECONDS
    set:NAME=VALUE  unset:NAME  fork:STEP+STEP

It needs the driver's own library only, and starts in a fraction of a second. It says how many SMs
it *measures*, too: blocks that run at the same time, one for each SM.
"""

import ctypes
import json
import os
import sys
import time
from typing import Any

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
.visible .entry burn(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<3>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    mov.f32 %f1, 0f3F800000;
    mov.f32 %f2, 0f3F7FFFFF;
    mov.u32 %r1, 0;
again:
    fma.rn.f32 %f1, %f1, %f2, %f2;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 50000;
    @%p1 bra again;
    st.global.f32 [%rd2], %f1;
    ret;
}
.visible .entry where(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %smid;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    mov.u32 %r2, 1;
    st.global.u32 [%rd2], %r2;
    mov.u32 %r3, 0;
wait:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 20000;
    @%p1 bra wait;
    ret;
}
"""
SMS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
MOST_SMS = 1024
GIB = 1 << 30


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Cuda:
    """Exits with status 3 where CUDA refuses to start."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._require(self._cuda.cuInit(0))
        self._require(self._cuda.cuDeviceGet(ctypes.byref(self.device), 0))
        self._require(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device))
        self._require(self._cuda.cuCtxSetCurrent(context))
        self._require(self._cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        self._where, self._wild, self._burn = (ctypes.c_void_p() for _ in range(3))
        self._cuda.cuModuleGetFunction(ctypes.byref(self._burn), module, b"burn")
        self._cuda.cuModuleGetFunction(ctypes.byref(self._where), module, b"where")
        self._cuda.cuModuleGetFunction(ctypes.byref(self._wild), module, b"wild")
        self._seen = ctypes.c_uint64()
        self._require(self._cuda.cuMemAlloc_v2(ctypes.byref(self._seen), 4 * MOST_SMS))

    def _require(self, status: int) -> None:
        if status:
            say(refused=self.name(status))
            sys.exit(3)

    def name(self, status: int) -> str:
        found = ctypes.c_char_p()
        self._cuda.cuGetErrorName(status, ctypes.byref(found))
        return (
            found.value.decode().removeprefix("CUDA_").removeprefix("ERROR_")
            if found.value
            else str(status)
        )

    def _launch(self, kernel: Any, blocks: int, *args: Any, threads: int = 1) -> int:
        addresses = (ctypes.c_void_p * max(len(args), 1))(*(ctypes.addressof(a) for a in args))
        shape = (blocks, 1, 1, threads, 1, 1, 0, None, addresses, None)
        return self._cuda.cuLaunchKernel(kernel, *shape) or self._cuda.cuCtxSynchronize()

    def work(self) -> int:
        return self._launch(self._where, 8 * MOST_SMS, ctypes.c_uint64(self._seen.value))

    def info(self) -> None:
        count, free, total = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
        self._cuda.cuDeviceGetAttribute(ctypes.byref(count), SMS, self.device)
        self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        self._cuda.cuMemsetD8_v2(self._seen, 0, ctypes.c_size_t(4 * MOST_SMS))
        self.work()
        used = (ctypes.c_uint32 * MOST_SMS)()
        self._cuda.cuMemcpyDtoH_v2(used, self._seen, ctypes.c_size_t(4 * MOST_SMS))
        say(sms=count.value, used_sms=sum(used), free_gib=round(free.value / GIB, 2))

    def rate(self, seconds: float) -> None:
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            self._launch(self._burn, 132 * 32, ctypes.c_uint64(self._seen.value), threads=256)
            count += 1
        say(rate=count / (time.monotonic() - began))

    def alloc(self, gib: float) -> None:
        address = ctypes.c_uint64()
        status = self._cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(gib * GIB)))
        say(alloc=gib, answer=self.name(status))

    def hold(self, seconds: float) -> None:
        """Works until the time is up, or says after how long it was stopped, and by what."""
        say(holding=os.getpid())
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            status = self.work()
            if status:
                say(stopped=self.name(status), at=time.time())
                return
            time.sleep(0.01)
        say(held=seconds)

    def fault(self) -> None:
        say(fault=self.name(self._launch(self._wild, 1)))


def run(steps: list[str], cuda: Cuda | None = None) -> None:
    for step in steps:
        what, _, value = step.partition(":")
        if what == "set":
            name, _, text = value.partition("=")
            os.environ[name] = text
        elif what == "unset":
            os.environ.pop(value, None)
        elif what == "sleep":
            time.sleep(float(value))
        elif what == "fork":
            if os.fork() == 0:
                run(value.split("+"))
                os._exit(0)
        else:
            cuda = cuda or Cuda()
            call = getattr(cuda, what)
            call(float(value)) if value else call()


if __name__ == "__main__":
    run(sys.argv[1:])
