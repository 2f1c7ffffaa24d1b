// Fixed-width integers, the tensor map's type, and the names of element types.
#pragma once

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#ifndef __cuda_cuda_h__
struct __align__(64) CUtensorMap {  // 128 opaque bytes made by cuTensorMapEncodeTiled
  uint64_t opaque[16];
};
#endif

#define TL_DEVICE __device__ __forceinline__

namespace tl {

struct f16 {};  // element types, for wrappers that exist once per type
struct bf16 {};

// The address in the shared window of a pointer to shared memory.
TL_DEVICE uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

}  // namespace tl
