// Scalar functions that CUDA does not have under one name.
#pragma once
#include "tl_types.cuh"

namespace tl {

TL_DEVICE float nan() { return __int_as_float(0x7fffffff); }
TL_DEVICE float infinity() { return __int_as_float(0x7f800000); }

// ex2.approx: 2 to the power of x, relative error at most 2^-22; results below 2^-126 are zero.
TL_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

TL_DEVICE double exp2(double x) { return ::exp2(x); }

// 1 / (1 + exp(-x)) by ex2.approx and rcp.approx: relative error below 2^-20.
TL_DEVICE float sigmoid(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + exp2(x * -1.44269504f)));
  return y;
}
TL_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// Division toward minus infinity and its remainder, which has the divisor's sign, as in Python.
template <class Int>
TL_DEVICE Int floor_div(Int a, Int b) {
  const Int quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}
template <class Int>
TL_DEVICE Int floor_mod(Int a, Int b) {
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
TL_DEVICE float floor_div(float a, float b) { return floorf(a / b); }
TL_DEVICE float floor_mod(float a, float b) { return a - floorf(a / b) * b; }
TL_DEVICE double floor_div(double a, double b) { return floor(a / b); }
TL_DEVICE double floor_mod(double a, double b) { return a - floor(a / b) * b; }

}  // namespace tl
