#include "tl_types.cuh"
#include "tl_convert.cuh"
#include "tl_mbarrier.cuh"
#include "tl_stmatrix.cuh"
#include "tl_sync.cuh"
#include "tl_tma.cuh"
#include "tl_wgmma.cuh"
TL_WGMMA_SS(48, f16)

// kernel (by_hand.tl:21) for sm_90a: grid 1, 128 consumer + 128 producer threads, 2 blocks per SM,
// 25088 bytes of dynamic shared memory, 10 mbarriers
extern "C" __global__ void __launch_bounds__(256, 2)
kernel_kernel(const __grid_constant__ CUtensorMap A_desc,  // A: float16 64 x 96, boxes of 64 x 32, 64-byte swizzle
              const __grid_constant__ CUtensorMap B_desc,  // B: float16 96 x 48, boxes of 32 x 16, 32-byte swizzle
              const __grid_constant__ CUtensorMap D_desc,  // D: float16 64 x 32, boxes of 64 x 16, 32-byte swizzle
              const __grid_constant__ CUtensorMap E_desc,  // E: float16 32 x 48, boxes of 16 x 16, 32-byte swizzle
              const __grid_constant__ CUtensorMap C_desc) {  // C: float16 64 x 48, boxes of 64 x 16, 32-byte swizzle
  extern __shared__ __align__(1024) uint8_t shared_memory[];  // 25088 bytes, dynamic
  const uint32_t A_s = tl::shared_address(shared_memory);  // 2 x 4096 bytes: 64 x 32, 64-byte swizzle
  const uint32_t B_s = tl::shared_address(shared_memory) + 8192;  // 2 x 3072 bytes: 32 x 48, 3 panels of 16 columns, 32-byte swizzle
  const uint32_t D_s = tl::shared_address(shared_memory) + 14336;  // 3 x 2048 bytes: 64 x 16, 32-byte swizzle
  const uint32_t E_s = tl::shared_address(shared_memory) + 20480;  // 3 x 1536 bytes: 16 x 48, 3 panels of 16 columns, 32-byte swizzle
  const uint32_t C_tile = tl::shared_address(shared_memory);  // 6144 bytes: 64 x 48, 3 panels of 16 columns, 32-byte swizzle
  __shared__ __align__(8) uint64_t A_s_B_s_full[2];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t A_s_B_s_empty[2];  // every consumer warp is done with the slot
  __shared__ __align__(8) uint64_t D_s_E_s_full[3];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t D_s_E_s_empty[3];  // every consumer warp is done with the slot
  const int thread = threadIdx.x;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp == 0 && tl::elect_one()) {
    tl::mbarrier_init(A_s_B_s_full[0], 1);
    tl::mbarrier_init(A_s_B_s_full[1], 1);
    tl::mbarrier_init(A_s_B_s_empty[0], 4);
    tl::mbarrier_init(A_s_B_s_empty[1], 4);
    tl::mbarrier_init(D_s_E_s_full[0], 1);
    tl::mbarrier_init(D_s_E_s_full[1], 1);
    tl::mbarrier_init(D_s_E_s_full[2], 1);
    tl::mbarrier_init(D_s_E_s_empty[0], 4);
    tl::mbarrier_init(D_s_E_s_empty[1], 4);
    tl::mbarrier_init(D_s_E_s_empty[2], 4);
    tl::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp < 4) {  // consumers: compute and store
    tl::warpgroup_reg_alloc<232>();
    uint32_t A_s_B_s_stage = 0;
    uint32_t A_s_B_s_phase = 0;
    uint32_t D_s_E_s_stage = 0;
    uint32_t D_s_E_s_phase = 0;
    const uint32_t A_s_desc = tl::descriptor_low(A_s, 16);
    const uint32_t B_s_desc = tl::descriptor_low(B_s, 1024);
    const uint32_t D_s_desc = tl::descriptor_low(D_s, 16);
    const uint32_t E_s_desc = tl::descriptor_low(E_s, 512);
    float acc[1][24];
    #pragma unroll 1
    for (int ko = 0; ko < 3; ++ko) {
      // T.gemm(A_s, B_s, acc)  (by_hand.tl:14)
      while (!tl::mbarrier_try_wait(A_s_B_s_full[A_s_B_s_stage], A_s_B_s_phase)) {}
      const uint32_t A_s_slot = A_s_desc + A_s_B_s_stage * 256;
      const uint32_t B_s_slot = B_s_desc + A_s_B_s_stage * 192;
      tl::fence_registers(acc);
      tl::wgmma_fence();
      #pragma unroll
      for (int k = 0; k < 2; ++k) {
        tl::wgmma_ss<48, tl::f16, tl::K_MAJOR, tl::MN_MAJOR>(acc[0],
            tl::matrix_descriptor<512, 64>(A_s_slot + k * 2),
            tl::matrix_descriptor<256, 32>(B_s_slot + k * 32), ko != 0 || k != 0);
      }
      tl::wgmma_commit_group();
      tl::wgmma_wait_group<0>();
      tl::fence_registers(acc);
      if (tl::elect_one()) {
        tl::mbarrier_arrive(A_s_B_s_empty[A_s_B_s_stage]);
      }
      if (++A_s_B_s_stage == 2) { A_s_B_s_stage = 0; A_s_B_s_phase ^= 1; }
    }
    #pragma unroll 1
    for (int t = 0; t < 2; ++t) {
      // T.gemm(D_s, E_s, acc)  (by_hand.tl:18)
      while (!tl::mbarrier_try_wait(D_s_E_s_full[D_s_E_s_stage], D_s_E_s_phase)) {}
      const uint32_t D_s_slot = D_s_desc + D_s_E_s_stage * 128;
      const uint32_t E_s_slot = E_s_desc + D_s_E_s_stage * 96;
      tl::fence_registers(acc);
      tl::wgmma_fence();
      tl::wgmma_ss<48, tl::f16, tl::K_MAJOR, tl::MN_MAJOR>(acc[0],
          tl::matrix_descriptor<256, 32>(D_s_slot),
          tl::matrix_descriptor<256, 32>(E_s_slot), true);
      tl::wgmma_commit_group();
      tl::wgmma_wait_group<0>();
      tl::fence_registers(acc);
      if (tl::elect_one()) {
        tl::mbarrier_arrive(D_s_E_s_empty[D_s_E_s_stage]);
      }
      if (++D_s_E_s_stage == 3) { D_s_E_s_stage = 0; D_s_E_s_phase ^= 1; }
    }
    // T.copy(acc, C)  (by_hand.tl:20)
    tl::named_barrier_sync<1, 128>();
    const int row = (thread >> 5) * 16 + (thread & 15);  // this lane's row of each stmatrix
    const uint32_t row_address = C_tile + row * 32;
    const uint32_t chunk = ((thread >> 4) & 1) ^ ((row >> 2) & 1);  // its chunk of a pair, swizzled
    #pragma unroll
    for (int panel = 0; panel < 3; ++panel) {
      tl::stmatrix_x4(row_address + panel * 2048 + chunk * 16,
          tl::pack_f16(acc[0][panel * 8], acc[0][panel * 8 + 1]),
          tl::pack_f16(acc[0][panel * 8 + 2], acc[0][panel * 8 + 3]),
          tl::pack_f16(acc[0][panel * 8 + 4], acc[0][panel * 8 + 5]),
          tl::pack_f16(acc[0][panel * 8 + 6], acc[0][panel * 8 + 7]));
    }
    tl::fence_proxy_async();
    tl::named_barrier_sync<1, 128>();
    if (warp == 0 && tl::elect_one()) {
      tl::tma_store(C_desc, C_tile, 0, 0);
      tl::tma_store(C_desc, C_tile + 2048, 16, 0);
      tl::tma_store(C_desc, C_tile + 4096, 32, 0);
      tl::tma_store_commit_group();
      tl::tma_store_wait_group_read<0>();
    }
  } else {  // producer: one thread keeps the rings full
    tl::warpgroup_reg_dealloc<24>();
    if (warp == 4 && tl::elect_one()) {
      uint32_t A_s_B_s_stage = 0;
      uint32_t A_s_B_s_phase = 0;
      uint32_t D_s_E_s_stage = 0;
      uint32_t D_s_E_s_phase = 0;
      #pragma unroll 1
      for (int ko = 0; ko < 3; ++ko) {
        while (!tl::mbarrier_try_wait(A_s_B_s_empty[A_s_B_s_stage], A_s_B_s_phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(A_s_B_s_full[A_s_B_s_stage], 7168);
        // T.copy(A[:, ko * 32 : ko * 32 + 32], A_s)  (by_hand.tl:12)
        tl::tma_load(A_desc, A_s_B_s_full[A_s_B_s_stage], A_s + A_s_B_s_stage * 4096, ko * 32, 0);
        // T.copy(B[ko * 32 : ko * 32 + 32, :], B_s)  (by_hand.tl:13)
        tl::tma_load(B_desc, A_s_B_s_full[A_s_B_s_stage], B_s + A_s_B_s_stage * 3072, 0, ko * 32);
        tl::tma_load(B_desc, A_s_B_s_full[A_s_B_s_stage], B_s + A_s_B_s_stage * 3072 + 1024, 16, ko * 32);
        tl::tma_load(B_desc, A_s_B_s_full[A_s_B_s_stage], B_s + A_s_B_s_stage * 3072 + 2048, 32, ko * 32);
        if (++A_s_B_s_stage == 2) { A_s_B_s_stage = 0; A_s_B_s_phase ^= 1; }
      }
      #pragma unroll 1
      for (int t = 0; t < 2; ++t) {
        while (!tl::mbarrier_try_wait(D_s_E_s_empty[D_s_E_s_stage], D_s_E_s_phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(D_s_E_s_full[D_s_E_s_stage], 3584);
        // T.copy(D[:, t * 16 : t * 16 + 16], D_s)  (by_hand.tl:16)
        tl::tma_load(D_desc, D_s_E_s_full[D_s_E_s_stage], D_s + D_s_E_s_stage * 2048, t * 16, 0);
        // T.copy(E[t * 16 : t * 16 + 16, :], E_s)  (by_hand.tl:17)
        tl::tma_load(E_desc, D_s_E_s_full[D_s_E_s_stage], E_s + D_s_E_s_stage * 1536, 0, t * 16);
        tl::tma_load(E_desc, D_s_E_s_full[D_s_E_s_stage], E_s + D_s_E_s_stage * 1536 + 512, 16, t * 16);
        tl::tma_load(E_desc, D_s_E_s_full[D_s_E_s_stage], E_s + D_s_E_s_stage * 1536 + 1024, 32, t * 16);
        if (++D_s_E_s_stage == 3) { D_s_E_s_stage = 0; D_s_E_s_phase ^= 1; }
      }
    }
  }
}
