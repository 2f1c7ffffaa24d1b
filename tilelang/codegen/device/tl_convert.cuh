// Narrow element types: packing into 32-bit words, unpacking, rounding.  A narrow float is a float in registers.
#pragma once
#include "tl_types.cuh"

namespace tl {

// ---- wide numbers to float, rounded to odd: a later rounding to nearest then sees what was lost, and rounds right ----

TL_DEVICE float sticky(float toward_zero, bool exact) {
  return exact ? toward_zero : __uint_as_float(__float_as_uint(toward_zero) | 1u);
}
TL_DEVICE float to_odd_float64(double value) {
  const float f = __double2float_rz(value);
  return sticky(f, f == value);
}
TL_DEVICE float to_odd_int32(int value) {
  const float f = __int2float_rz(value);
  return sticky(f, static_cast<int>(f) == value);
}
TL_DEVICE float to_odd_uint32(uint32_t value) {
  const float f = __uint2float_rz(value);
  return sticky(f, static_cast<uint32_t>(f) == value);
}
TL_DEVICE float to_odd_int64(long long value) {
  const float f = __ll2float_rz(value);
  return sticky(f, static_cast<long long>(f) == value);
}
TL_DEVICE float to_odd_uint64(uint64_t value) {
  const float f = __ull2float_rz(value);
  return sticky(f, static_cast<uint64_t>(f) == value);
}

// ---- 16-bit floats: two to a word, the first in bits 0-15 ----

TL_DEVICE uint32_t pack_f16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
TL_DEVICE uint16_t bits_f16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
TL_DEVICE float from_bits_f16(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
template <int Index>
TL_DEVICE float unpack_f16(uint32_t word) {
  return from_bits_f16(static_cast<uint16_t>(word >> 16 * Index));
}
TL_DEVICE float round_f16(float value) { return from_bits_f16(bits_f16(value)); }

TL_DEVICE uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
TL_DEVICE uint16_t bits_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
TL_DEVICE float from_bits_bf16(uint16_t bits) {
  float value;
  value = __uint_as_float(static_cast<uint32_t>(bits) << 16);
  return value;
}
template <int Index>
TL_DEVICE float unpack_bf16(uint32_t word) {
  return from_bits_bf16(static_cast<uint16_t>(word >> 16 * Index));
}
TL_DEVICE float round_bf16(float value) { return from_bits_bf16(bits_bf16(value)); }

// ---- 8-bit floats: four to a word; conversion saturates to the largest finite value, as the hardware's does ----

TL_DEVICE uint16_t pack_two_e4m3(float low, float high) {
  uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}
TL_DEVICE uint32_t pack_e4m3(float a, float b, float c, float d) {
  return pack_two_e4m3(a, b) | static_cast<uint32_t>(pack_two_e4m3(c, d)) << 16;
}
TL_DEVICE uint8_t bits_e4m3(float value) { return static_cast<uint8_t>(pack_two_e4m3(value, 0.0f)); }
TL_DEVICE float from_bits_e4m3(uint8_t bits) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
  return unpack_f16<0>(halves);
}
template <int Index>
TL_DEVICE float unpack_e4m3(uint32_t word) {
  return from_bits_e4m3(static_cast<uint8_t>(word >> 8 * Index));
}
TL_DEVICE float round_e4m3(float value) { return from_bits_e4m3(bits_e4m3(value)); }

TL_DEVICE uint16_t pack_two_e5m2(float low, float high) {
  uint16_t packed;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}
TL_DEVICE uint32_t pack_e5m2(float a, float b, float c, float d) {
  return pack_two_e5m2(a, b) | static_cast<uint32_t>(pack_two_e5m2(c, d)) << 16;
}
TL_DEVICE uint8_t bits_e5m2(float value) { return static_cast<uint8_t>(pack_two_e5m2(value, 0.0f)); }
TL_DEVICE float from_bits_e5m2(uint8_t bits) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bits)));
  return unpack_f16<0>(halves);
}
template <int Index>
TL_DEVICE float unpack_e5m2(uint32_t word) {
  return from_bits_e5m2(static_cast<uint8_t>(word >> 8 * Index));
}
TL_DEVICE float round_e5m2(float value) { return from_bits_e5m2(bits_e5m2(value)); }

// ---- narrow integers ----

TL_DEVICE uint32_t pack_i16(int16_t low, int16_t high) { return static_cast<uint16_t>(low) | static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16; }
template <int Index>
TL_DEVICE int16_t unpack_i16(uint32_t word) {
  return static_cast<int16_t>(word >> 16 * Index);
}
TL_DEVICE uint32_t pack_u16(uint16_t low, uint16_t high) { return static_cast<uint16_t>(low) | static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16; }
template <int Index>
TL_DEVICE uint16_t unpack_u16(uint32_t word) {
  return static_cast<uint16_t>(word >> 16 * Index);
}
TL_DEVICE uint32_t pack_i8(int8_t a, int8_t b, int8_t c, int8_t d) {
  return static_cast<uint8_t>(a) | static_cast<uint8_t>(b) << 8 | static_cast<uint8_t>(c) << 16 | static_cast<uint32_t>(static_cast<uint8_t>(d)) << 24;
}
template <int Index>
TL_DEVICE int8_t unpack_i8(uint32_t word) {
  return static_cast<int8_t>(word >> 8 * Index);
}
TL_DEVICE uint32_t pack_u8(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return static_cast<uint8_t>(a) | static_cast<uint8_t>(b) << 8 | static_cast<uint8_t>(c) << 16 | static_cast<uint32_t>(static_cast<uint8_t>(d)) << 24;
}
template <int Index>
TL_DEVICE uint8_t unpack_u8(uint32_t word) {
  return static_cast<uint8_t>(word >> 8 * Index);
}

// ---- float to integer: toward zero, saturating, NaN gives 0 ----

TL_DEVICE int8_t to_int8(float value) {
  int result;
  asm("cvt.rzi.s8.f32 %0, %1;" : "=r"(result) : "f"(value));
  return static_cast<int8_t>(result);
}
TL_DEVICE uint8_t to_uint8(float value) {
  uint32_t result;
  asm("cvt.rzi.u8.f32 %0, %1;" : "=r"(result) : "f"(value));
  return static_cast<uint8_t>(result);
}
TL_DEVICE int16_t to_int16(float value) {
  int16_t result;
  asm("cvt.rzi.s16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return static_cast<int16_t>(result);
}
TL_DEVICE uint16_t to_uint16(float value) {
  uint16_t result;
  asm("cvt.rzi.u16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return static_cast<uint16_t>(result);
}
TL_DEVICE int to_int32(float value) {
  int result;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return static_cast<int>(result);
}
TL_DEVICE uint32_t to_uint32(float value) {
  uint32_t result;
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return static_cast<uint32_t>(result);
}
TL_DEVICE long long to_int64(float value) {
  long long result;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(result) : "f"(value));
  return static_cast<long long>(result);
}
TL_DEVICE uint64_t to_uint64(float value) {
  uint64_t result;
  asm("cvt.rzi.u64.f32 %0, %1;" : "=l"(result) : "f"(value));
  return static_cast<uint64_t>(result);
}

}  // namespace tl
