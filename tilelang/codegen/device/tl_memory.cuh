// Vector accesses of 4, 8 and 16 bytes to global memory, and accesses to shared memory by byte address.
#pragma once
#include "tl_types.cuh"

namespace tl {

TL_DEVICE uint32_t word(uint32_t value) { return value; }
TL_DEVICE uint32_t word(int value) { return static_cast<uint32_t>(value); }
TL_DEVICE uint32_t word(float value) { return __float_as_uint(value); }

TL_DEVICE void set(uint32_t& to, uint32_t word) { to = word; }
TL_DEVICE void set(int& to, uint32_t word) { to = static_cast<int>(word); }
TL_DEVICE void set(float& to, uint32_t word) { to = __uint_as_float(word); }

// ---- Words registers from the address on; where the predicate is false they become zero ----

template <int Words, class T>
TL_DEVICE void load_global(T* to, const void* address, bool predicate = true) {
  static_assert(Words == 1 || Words == 2 || Words == 4, "a vector access moves 4, 8 or 16 bytes");
  uint32_t w[4] = {0, 0, 0, 0};
  if constexpr (Words == 1) {
    if (predicate) asm volatile("ld.global.b32 %0, [%1];" : "=r"(w[0]) : "l"(address) : "memory");
  } else if constexpr (Words == 2) {
    if (predicate) asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(address) : "memory");
  } else {
    if (predicate)
      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(address)
                   : "memory");
  }
#pragma unroll
  for (int i = 0; i < Words; i++) set(to[i], w[i]);
}
template <int Words, class T>
TL_DEVICE void load_shared(T* to, uint32_t address, bool predicate = true) {
  static_assert(Words == 1 || Words == 2 || Words == 4, "a vector access moves 4, 8 or 16 bytes");
  uint32_t w[4] = {0, 0, 0, 0};
  if constexpr (Words == 1) {
    if (predicate) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(w[0]) : "r"(address) : "memory");
  } else if constexpr (Words == 2) {
    if (predicate) asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(address) : "memory");
  } else {
    if (predicate)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "r"(address)
                   : "memory");
  }
#pragma unroll
  for (int i = 0; i < Words; i++) set(to[i], w[i]);
}

// The same from memory that nothing writes while the kernel runs: such loads may be moved and merged.
template <int Words, class T>
TL_DEVICE void load_global_constant(T* to, const void* address, bool predicate = true) {
  static_assert(Words == 1 || Words == 2 || Words == 4, "a vector access moves 4, 8 or 16 bytes");
  uint32_t w[4] = {0, 0, 0, 0};
  if constexpr (Words == 1) {
    asm("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.b32 %0, [%1]; }" : "+r"(w[0]) : "l"(address), "r"(int(predicate)));
  } else if constexpr (Words == 2) {
    asm("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
        : "+r"(w[0]), "+r"(w[1])
        : "l"(address), "r"(int(predicate)));
  } else {
    asm("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
        : "l"(address), "r"(int(predicate)));
  }
#pragma unroll
  for (int i = 0; i < Words; i++) set(to[i], w[i]);
}

// ---- one, two or four words to the address on ----
template <class T>
TL_DEVICE void store_global(void* address, T a) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(word(a)) : "memory");
}
template <class T>
TL_DEVICE void store_global(void* address, T a, T b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(word(a)), "r"(word(b)) : "memory");
}
template <class T>
TL_DEVICE void store_global(void* address, T a, T b, T c, T d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word(a)), "r"(word(b)), "r"(word(c)),
               "r"(word(d))
               : "memory");
}
template <class T>
TL_DEVICE void store_shared(uint32_t address, T a) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word(a)) : "memory");
}
template <class T>
TL_DEVICE void store_shared(uint32_t address, T a, T b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(word(a)), "r"(word(b)) : "memory");
}
template <class T>
TL_DEVICE void store_shared(uint32_t address, T a, T b, T c, T d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(word(a)), "r"(word(b)), "r"(word(c)),
               "r"(word(d))
               : "memory");
}

// ---- single elements of shared memory that are not 32 bits ----
TL_DEVICE uint8_t load_shared_b8(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return static_cast<uint8_t>(value);
}
TL_DEVICE uint16_t load_shared_b16(uint32_t address) {
  uint16_t value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  return value;
}
template <class T>
TL_DEVICE T load_shared_b64(uint32_t address) {
  unsigned long long bits;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(bits) : "r"(address) : "memory");
  T value;
  memcpy(&value, &bits, 8);
  return value;
}
template <class T>
TL_DEVICE void store_shared_b64(uint32_t address, T value) {
  unsigned long long bits;
  memcpy(&bits, &value, 8);
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(address), "l"(bits) : "memory");
}
TL_DEVICE void store_shared_b8(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
TL_DEVICE void store_shared_b16(uint32_t address, uint16_t value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

}  // namespace tl
