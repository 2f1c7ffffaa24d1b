#include "tl_types.cuh"
#include "tl_convert.cuh"
#include "tl_mbarrier.cuh"
#include "tl_stmatrix.cuh"
#include "tl_sync.cuh"
#include "tl_tma.cuh"
#include "tl_wgmma.cuh"
TL_WGMMA_SS(32, f16)
TL_WGMMA_SS(64, f16)

// kernel (by_hand.tl:21) for sm_90a: grid 1, 128 consumer + 128 producer threads, 2 blocks per SM,
// 28672 bytes of dynamic shared memory, 10 mbarriers
extern "C" __global__ void __launch_bounds__(256, 2)
kernel_kernel(const __grid_constant__ CUtensorMap Q_desc,  // Q: float16 64 x 32, boxes of 64 x 32, 64-byte swizzle
              const __grid_constant__ CUtensorMap K_desc,  // K: float16 192 x 32, boxes of 64 x 32, 64-byte swizzle
              const __grid_constant__ CUtensorMap V_desc,  // V: float16 192 x 32, boxes of 64 x 32, 64-byte swizzle
              const __grid_constant__ CUtensorMap O_desc) {  // O: float16 64 x 32, boxes of 64 x 32, 64-byte swizzle
  extern __shared__ __align__(1024) uint8_t shared_memory[];  // 28672 bytes, dynamic
  const uint32_t Q_s = tl::shared_address(shared_memory);  // 4096 bytes: 64 x 32, 64-byte swizzle
  const uint32_t K_s = tl::shared_address(shared_memory) + 4096;  // 2 x 4096 bytes: 64 x 32, 64-byte swizzle
  const uint32_t V_s = tl::shared_address(shared_memory) + 12288;  // 2 x 4096 bytes: 64 x 32, 64-byte swizzle
  const uint32_t S_s = tl::shared_address(shared_memory) + 20480;  // 8192 bytes: 64 x 64, 128-byte swizzle
  const uint32_t O_tile = tl::shared_address(shared_memory);  // 4096 bytes: 64 x 32, 64-byte swizzle
  __shared__ __align__(8) uint64_t Q_s_full[1];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t Q_s_empty[1];  // every consumer warp is done with the slot
  __shared__ __align__(8) uint64_t K_s_full[2];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t K_s_empty[2];  // every consumer warp is done with the slot
  __shared__ __align__(8) uint64_t V_s_full[2];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t V_s_empty[2];  // every consumer warp is done with the slot
  const int thread = threadIdx.x;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp == 0 && tl::elect_one()) {
    tl::mbarrier_init(Q_s_full[0], 1);
    tl::mbarrier_init(Q_s_empty[0], 4);
    tl::mbarrier_init(K_s_full[0], 1);
    tl::mbarrier_init(K_s_full[1], 1);
    tl::mbarrier_init(K_s_empty[0], 4);
    tl::mbarrier_init(K_s_empty[1], 4);
    tl::mbarrier_init(V_s_full[0], 1);
    tl::mbarrier_init(V_s_full[1], 1);
    tl::mbarrier_init(V_s_empty[0], 4);
    tl::mbarrier_init(V_s_empty[1], 4);
    tl::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp < 4) {  // consumers: compute and store
    tl::warpgroup_reg_alloc<232>();
    uint32_t Q_s_phase = 0;
    uint32_t K_s_stage = 0;
    uint32_t K_s_phase = 0;
    uint32_t V_s_stage = 0;
    uint32_t V_s_phase = 0;
    const uint32_t Q_s_desc = tl::descriptor_low(Q_s, 16);
    const uint32_t K_s_desc = tl::descriptor_low(K_s, 16);
    const uint32_t S_s_desc = tl::descriptor_low(S_s, 16);
    const uint32_t V_s_desc = tl::descriptor_low(V_s, 4096);
    float scores[1][32];
    float acc[1][16];
    while (!tl::mbarrier_try_wait(Q_s_full[0], Q_s_phase)) {}
    #pragma unroll 1
    for (int i = 0; i < 3; ++i) {
      // T.gemm(Q_s, K_s, scores, transpose_B=True)  (by_hand.tl:15)
      while (!tl::mbarrier_try_wait(K_s_full[K_s_stage], K_s_phase)) {}
      const uint32_t K_s_slot = K_s_desc + K_s_stage * 256;
      tl::fence_registers(scores);
      tl::wgmma_fence();
      #pragma unroll
      for (int k = 0; k < 2; ++k) {
        tl::wgmma_ss<64, tl::f16, tl::K_MAJOR, tl::K_MAJOR>(scores[0],
            tl::matrix_descriptor<512, 64>(Q_s_desc + k * 2),
            tl::matrix_descriptor<512, 64>(K_s_slot + k * 2), k != 0);
      }
      tl::wgmma_commit_group();
      tl::wgmma_wait_group<0>();
      tl::fence_registers(scores);
      if (tl::elect_one()) {
        tl::mbarrier_arrive(K_s_empty[K_s_stage]);
      }
      if (++K_s_stage == 2) { K_s_stage = 0; K_s_phase ^= 1; }
      // T.copy(scores, S_s)  (by_hand.tl:16)
      tl::named_barrier_sync<1, 128>();
      const int row = (thread >> 5) * 16 + (thread & 15);  // this lane's row of each stmatrix
      const uint32_t row_address = S_s + row * 128;
      const uint32_t chunk = ((thread >> 4) & 1) ^ (row & 7);  // its chunk of a pair, swizzled
      #pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        tl::stmatrix_x4(row_address + ((pair * 2) ^ chunk) * 16,
            tl::pack_f16(scores[0][pair * 8], scores[0][pair * 8 + 1]),
            tl::pack_f16(scores[0][pair * 8 + 2], scores[0][pair * 8 + 3]),
            tl::pack_f16(scores[0][pair * 8 + 4], scores[0][pair * 8 + 5]),
            tl::pack_f16(scores[0][pair * 8 + 6], scores[0][pair * 8 + 7]));
      }
      // T.gemm(S_s, V_s, acc)  (by_hand.tl:18)
      tl::fence_proxy_async();
      tl::named_barrier_sync<1, 128>();
      while (!tl::mbarrier_try_wait(V_s_full[V_s_stage], V_s_phase)) {}
      const uint32_t V_s_slot = V_s_desc + V_s_stage * 256;
      tl::fence_registers(acc);
      tl::wgmma_fence();
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        tl::wgmma_ss<32, tl::f16, tl::K_MAJOR, tl::MN_MAJOR>(acc[0],
            tl::matrix_descriptor<1024, 128>(S_s_desc + k * 2),
            tl::matrix_descriptor<512, 64>(V_s_slot + k * 64), i != 0 || k != 0);
      }
      tl::wgmma_commit_group();
      tl::wgmma_wait_group<0>();
      tl::fence_registers(acc);
      if (tl::elect_one()) {
        tl::mbarrier_arrive(V_s_empty[V_s_stage]);
      }
      if (++V_s_stage == 2) { V_s_stage = 0; V_s_phase ^= 1; }
    }
    if (tl::elect_one()) {
      tl::mbarrier_arrive(Q_s_empty[0]);
    }
    Q_s_phase ^= 1;
    // T.copy(acc, O)  (by_hand.tl:20)
    const int row = (thread >> 5) * 16 + (thread & 15);  // this lane's row of each stmatrix
    const uint32_t row_address = O_tile + row * 64;
    const uint32_t chunk = ((thread >> 4) & 1) ^ ((row >> 1) & 3);  // its chunk of a pair, swizzled
    #pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      tl::stmatrix_x4(row_address + ((pair * 2) ^ chunk) * 16,
          tl::pack_f16(acc[0][pair * 8], acc[0][pair * 8 + 1]),
          tl::pack_f16(acc[0][pair * 8 + 2], acc[0][pair * 8 + 3]),
          tl::pack_f16(acc[0][pair * 8 + 4], acc[0][pair * 8 + 5]),
          tl::pack_f16(acc[0][pair * 8 + 6], acc[0][pair * 8 + 7]));
    }
    tl::fence_proxy_async();
    tl::named_barrier_sync<1, 128>();
    if (warp == 0 && tl::elect_one()) {
      tl::tma_store(O_desc, O_tile, 0, 0);
      tl::tma_store_commit_group();
      tl::tma_store_wait_group_read<0>();
    }
  } else {  // producer: one thread keeps the rings full
    tl::warpgroup_reg_dealloc<24>();
    if (warp == 4 && tl::elect_one()) {
      uint32_t Q_s_phase = 0;
      uint32_t K_s_stage = 0;
      uint32_t K_s_phase = 0;
      uint32_t V_s_stage = 0;
      uint32_t V_s_phase = 0;
      while (!tl::mbarrier_try_wait(Q_s_empty[0], Q_s_phase ^ 1)) {}
      tl::mbarrier_arrive_expect_tx(Q_s_full[0], 4096);
      // T.copy(Q, Q_s)  (by_hand.tl:11)
      tl::tma_load(Q_desc, Q_s_full[0], Q_s, 0, 0);
      Q_s_phase ^= 1;
      #pragma unroll 1
      for (int i = 0; i < 3; ++i) {
        while (!tl::mbarrier_try_wait(K_s_empty[K_s_stage], K_s_phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(K_s_full[K_s_stage], 4096);
        // T.copy(K[i * 64 : i * 64 + 64, :], K_s)  (by_hand.tl:13)
        tl::tma_load(K_desc, K_s_full[K_s_stage], K_s + K_s_stage * 4096, 0, i * 64);
        if (++K_s_stage == 2) { K_s_stage = 0; K_s_phase ^= 1; }
        while (!tl::mbarrier_try_wait(V_s_empty[V_s_stage], V_s_phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(V_s_full[V_s_stage], 4096);
        // T.copy(V[i * 64 : i * 64 + 64, :], V_s)  (by_hand.tl:17)
        tl::tma_load(V_desc, V_s_full[V_s_stage], V_s + V_s_stage * 4096, 0, i * 64);
        if (++V_s_stage == 2) { V_s_stage = 0; V_s_phase ^= 1; }
      }
    }
  }
}
