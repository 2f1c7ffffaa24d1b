// stmatrix: four 8 x 8 matrices of 16-bit elements from a warp's registers to shared memory.
#pragma once
#include "tl_types.cuh"

namespace tl {

// Lane i gives the address of row i % 8 of matrix i / 8; a..d are this thread's two elements of each matrix.
TL_DEVICE void stmatrix_x4(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

}  // namespace tl
