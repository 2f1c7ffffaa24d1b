// Named barriers, election, register reallocation, proxy fence.
#pragma once
#include "tl_types.cuh"

namespace tl {

// bar.sync: `Threads` threads meet at named barrier `Id` (1 to 15; 0 is __syncthreads).
template <int Id, int Threads>
TL_DEVICE void named_barrier_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}

// elect.sync: true in one lane of the warp.
TL_DEVICE bool elect_one() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

// setmaxnreg: gives registers of this warpgroup back to the block, or takes them.
template <int Registers>
TL_DEVICE void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
TL_DEVICE void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// fence.proxy.async: ordinary writes to shared memory before later accesses by TMA and wgmma.
TL_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tl
