#include "tl_types.cuh"
#include "tl_mbarrier.cuh"
#include "tl_sync.cuh"
#include "tl_tma.cuh"

// kernel (by_hand.tl:7) for sm_90a: grid 1, 128 consumer + 128 producer threads, 2 blocks per SM,
// 6144 bytes of dynamic shared memory, 6 mbarriers
extern "C" __global__ void __launch_bounds__(256, 2)
kernel_kernel(const __grid_constant__ CUtensorMap A_desc,  // A: float16 80 x 64, boxes of 16 x 64, 128-byte swizzle
              const __grid_constant__ CUtensorMap D_desc) {  // D: float16 80 x 64, boxes of 16 x 64, 128-byte swizzle
  extern __shared__ __align__(1024) uint8_t shared_memory[];  // 6144 bytes, dynamic
  const uint32_t A_s = tl::shared_address(shared_memory);  // 3 x 2048 bytes: 16 x 64, 128-byte swizzle
  __shared__ __align__(8) uint64_t full[3];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t empty[3];  // every consumer warp is done with the slot
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp == 0 && tl::elect_one()) {
    tl::mbarrier_init(full[0], 1);
    tl::mbarrier_init(full[1], 1);
    tl::mbarrier_init(full[2], 1);
    tl::mbarrier_init(empty[0], 4);
    tl::mbarrier_init(empty[1], 4);
    tl::mbarrier_init(empty[2], 4);
    tl::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp < 4) {  // consumers: compute and store
    tl::warpgroup_reg_alloc<232>();
    uint32_t stage = 0;
    uint32_t phase = 0;
    #pragma unroll 1
    for (int ko = 0; ko < 5; ++ko) {
      // T.copy(A_s, D[ko * 16 : ko * 16 + 16, :])  (by_hand.tl:5)
      while (!tl::mbarrier_try_wait(full[stage], phase)) {}
      if (warp == 0 && tl::elect_one()) {
        tl::tma_store_wait_group<0>();
        tl::tma_store(D_desc, A_s + stage * 2048, 0, ko * 16);
        tl::tma_store_commit_group();
        tl::tma_store_wait_group_read<0>();
      }
      if (tl::elect_one()) {
        tl::mbarrier_arrive(empty[stage]);
      }
      if (++stage == 3) { stage = 0; phase ^= 1; }
    }
  } else {  // producer: one thread keeps the rings full
    tl::warpgroup_reg_dealloc<24>();
    if (warp == 4 && tl::elect_one()) {
      uint32_t stage = 0;
      uint32_t phase = 0;
      #pragma unroll 1
      for (int ko = 0; ko < 5; ++ko) {
        while (!tl::mbarrier_try_wait(empty[stage], phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(full[stage], 2048);
        // T.copy(A[ko * 16 : ko * 16 + 16, :], A_s)  (by_hand.tl:4)
        tl::tma_load(A_desc, full[stage], A_s + stage * 2048, 0, ko * 16);
        if (++stage == 3) { stage = 0; phase ^= 1; }
      }
    }
  }
}
