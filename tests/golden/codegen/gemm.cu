#include "tl_types.cuh"
#include "tl_convert.cuh"
#include "tl_mbarrier.cuh"
#include "tl_stmatrix.cuh"
#include "tl_sync.cuh"
#include "tl_tma.cuh"
#include "tl_wgmma.cuh"
TL_WGMMA_SS(128, f16)

// kernel for sm_90a: grid 8 x 8, 128 consumer + 128 producer threads, 2 blocks per SM,
// 98304 bytes of dynamic shared memory, 6 mbarriers
extern "C" __global__ void __launch_bounds__(256, 2)
kernel_kernel(const __grid_constant__ CUtensorMap A_desc,  // A: float16 1024 x 1024, boxes of 128 x 64, 128-byte swizzle
              const __grid_constant__ CUtensorMap B_desc,  // B: float16 1024 x 1024, boxes of 64 x 64, 128-byte swizzle
              const __grid_constant__ CUtensorMap C_desc) {  // C: float16 1024 x 1024, boxes of 128 x 64, 128-byte swizzle
  extern __shared__ __align__(1024) uint8_t shared_memory[];  // 98304 bytes, dynamic
  const uint32_t A_shared = tl::shared_address(shared_memory);  // 3 x 16384 bytes: 128 x 64, 128-byte swizzle
  const uint32_t B_shared = tl::shared_address(shared_memory) + 49152;  // 3 x 16384 bytes: 64 x 128, 2 panels of 64 columns, 128-byte swizzle
  const uint32_t C_tile = tl::shared_address(shared_memory);  // 32768 bytes: 128 x 128, 2 panels of 64 columns, 128-byte swizzle
  __shared__ __align__(8) uint64_t full[3];  // the slot's bytes have landed
  __shared__ __align__(8) uint64_t empty[3];  // every consumer warp is done with the slot
  const int thread = threadIdx.x;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int block = int(blockIdx.y) * 8 + int(blockIdx.x);  // tiles in groups of 8 rows, down the rows first, for the L2 cache
  const int first_row = block / 64 * 8;
  const int place = block % 64;
  const int bx = place / 8;
  const int by = first_row + place % 8;
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
    const uint32_t A_shared_desc = tl::descriptor_low(A_shared, 16);
    const uint32_t B_shared_desc = tl::descriptor_low(B_shared, 8192);
    float C_local[2][64];
    #pragma unroll 1
    for (int ko = 0; ko < 16; ++ko) {
      // T.gemm(A_shared, B_shared, C_local)
      while (!tl::mbarrier_try_wait(full[stage], phase)) {}
      const uint32_t A_shared_slot = A_shared_desc + stage * 1024;
      const uint32_t B_shared_slot = B_shared_desc + stage * 1024;
      tl::fence_registers(C_local);
      tl::wgmma_fence();
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
          tl::wgmma_ss<128, tl::f16, tl::K_MAJOR, tl::MN_MAJOR>(C_local[i],
              tl::matrix_descriptor<1024, 128>(A_shared_slot + i * 512 + k * 2),
              tl::matrix_descriptor<1024, 128>(B_shared_slot + k * 128), ko != 0 || k != 0);
        }
      }
      tl::wgmma_commit_group();
      tl::wgmma_wait_group<0>();
      tl::fence_registers(C_local);
      if (tl::elect_one()) {
        tl::mbarrier_arrive(empty[stage]);
      }
      if (++stage == 3) { stage = 0; phase ^= 1; }
    }
    // T.copy(C_local, C[by * 128 : by * 128 + 128, bx * 128 : bx * 128 + 128])
    tl::named_barrier_sync<1, 128>();
    const int row = (thread >> 5) * 16 + (thread & 15);  // this lane's row of each stmatrix
    const uint32_t row_address = C_tile + row * 128;
    const uint32_t chunk = ((thread >> 4) & 1) ^ (row & 7);  // its chunk of a pair, swizzled
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      #pragma unroll
      for (int panel = 0; panel < 2; ++panel) {
        #pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          tl::stmatrix_x4(row_address + i * 8192 + panel * 16384 + ((pair * 2) ^ chunk) * 16,
              tl::pack_f16(C_local[i][panel * 32 + pair * 8], C_local[i][panel * 32 + pair * 8 + 1]),
              tl::pack_f16(C_local[i][panel * 32 + pair * 8 + 2], C_local[i][panel * 32 + pair * 8 + 3]),
              tl::pack_f16(C_local[i][panel * 32 + pair * 8 + 4], C_local[i][panel * 32 + pair * 8 + 5]),
              tl::pack_f16(C_local[i][panel * 32 + pair * 8 + 6], C_local[i][panel * 32 + pair * 8 + 7]));
        }
      }
    }
    tl::fence_proxy_async();
    tl::named_barrier_sync<1, 128>();
    if (warp == 0 && tl::elect_one()) {
      tl::tma_store(C_desc, C_tile, bx * 128, by * 128);
      tl::tma_store(C_desc, C_tile + 16384, bx * 128 + 64, by * 128);
      tl::tma_store_commit_group();
      tl::tma_store_wait_group_read<0>();
    }
  } else {  // producer: one thread keeps the rings full
    tl::warpgroup_reg_dealloc<24>();
    if (warp == 4 && tl::elect_one()) {
      uint32_t stage = 0;
      uint32_t phase = 0;
      #pragma unroll 1
      for (int ko = 0; ko < 16; ++ko) {
        while (!tl::mbarrier_try_wait(empty[stage], phase ^ 1)) {}
        tl::mbarrier_arrive_expect_tx(full[stage], 32768);
        // T.copy(A[by * 128 : by * 128 + 128, ko * 64 : ko * 64 + 64], A_shared)
        tl::tma_load(A_desc, full[stage], A_shared + stage * 16384, ko * 64, by * 128);
        // T.copy(B[ko * 64 : ko * 64 + 64, bx * 128 : bx * 128 + 128], B_shared)
        tl::tma_load(B_desc, full[stage], B_shared + stage * 16384, bx * 128, ko * 64);
        tl::tma_load(B_desc, full[stage], B_shared + stage * 16384 + 8192, bx * 128 + 64, ko * 64);
        if (++stage == 3) { stage = 0; phase ^= 1; }
      }
    }
  }
}
