// wgmma: asynchronous matrix products of a warpgroup, B in shared memory, A in shared memory (ss) or in registers (rs).
//
// wgmma_ss and wgmma_rs exist for the shapes and types a kernel asks for by TL_WGMMA_SS(n, type) and TL_WGMMA_RS(n, type) before its
// code; each is one instruction.
#pragma once
#include "tl_types.cuh"

namespace tl {

// How an operand lies in shared memory: along k, or along m (A) or n (B).
constexpr int K_MAJOR = 0, MN_MAJOR = 1;

TL_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TL_DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most `Pending` groups of this warp are in flight.
template <int Pending>
TL_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// No instruction: keeps the compiler from moving uses of registers that wgmma writes asynchronously.
template <int Count>
TL_DEVICE void fence_registers(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i++) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int Count>
TL_DEVICE void fence_registers(uint32_t (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i++) asm volatile("" : "+r"(registers[i])::"memory");
}
template <class T, int Rows, int Count>
TL_DEVICE void fence_registers(T (&registers)[Rows][Count]) {
#pragma unroll
  for (int i = 0; i < Rows; i++) fence_registers(registers[i]);
}

// Bits 0-31 of a matrix descriptor: the address, of which 18 bits count, and the leading byte offset, both in units of 16 bytes.
TL_DEVICE uint32_t descriptor_low(uint32_t shared, uint32_t leading_bytes) {
  return (leading_bytes >> 4) << 16 | (shared & 0x3FFFF) >> 4;
}

// The whole descriptor: stride byte offset in bits 32-45, layout type in bits 62-63.
template <int StrideBytes, int SwizzleBytes>
TL_DEVICE uint64_t matrix_descriptor(uint32_t low) {
  const uint32_t type = SwizzleBytes == 128 ? 1 : SwizzleBytes == 64 ? 2 : SwizzleBytes == 32 ? 3 : 0;
  return static_cast<uint64_t>(type << 30 | StrideBytes >> 4) << 32 | low;
}

// D[64, N] = A[64, 16] @ B[16, N] + (accumulate ? D : 0); D is N / 2 float32 registers a thread, A in registers 4 words of two
// 16-bit elements.
template <int N, class Type, int A, int B>
struct WgmmaSS;
template <int N, class Type, int B>
struct WgmmaRS;

template <int N, class Type, int A, int B>
TL_DEVICE void wgmma_ss(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
  WgmmaSS<N, Type, A, B>::issue(d, a, b, accumulate);
}
template <int N, class Type, int B>
TL_DEVICE void wgmma_rs(float (&d)[N / 2], const uint32_t* a, uint64_t b, bool accumulate) {
  WgmmaRS<N, Type, B>::issue(d, a, b, accumulate);
}

}  // namespace tl

#define TL_WGMMA_SS(N, TYPE) TL_WGMMA_SS_##N(TYPE)
#define TL_WGMMA_RS(N, TYPE) TL_WGMMA_RS_##N(TYPE)
#define TL_WGMMA_SS_IMPL(N, TYPE, D, OPERANDS, A_DESC, B_DESC, SCALE, TRANS_A, TRANS_B)                                \
  namespace tl {                                                                                                       \
  template <int A, int B>                                                                                              \
  struct WgmmaSS<N, TYPE, A, B> {                                                                                      \
    static TL_DEVICE void issue(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {                          \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, " SCALE ", 0; wgmma.mma_async.sync.aligned.m64n" #N                 \
                   "k16.f32." #TYPE "." #TYPE " {" D "}, " A_DESC ", " B_DESC ", p, 1, 1, " TRANS_A ", " TRANS_B "; }" \
                   : OPERANDS                                                                                          \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(A), "n"(B));                               \
    }                                                                                                                  \
  };                                                                                                                   \
  }
#define TL_WGMMA_RS_IMPL(N, TYPE, D, OPERANDS, A0, A1, A2, A3, B_DESC, SCALE, TRANS_B)                                          \
  namespace tl {                                                                                                                \
  template <int B>                                                                                                              \
  struct WgmmaRS<N, TYPE, B> {                                                                                                  \
    static TL_DEVICE void issue(float (&d)[N / 2], const uint32_t* a, uint64_t b, bool accumulate) {                            \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, " SCALE ", 0; wgmma.mma_async.sync.aligned.m64n" #N                          \
                   "k16.f32." #TYPE "." #TYPE " {" D "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B_DESC ", p, 1, 1, " TRANS_B "; }" \
                   : OPERANDS                                                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(B));            \
    }                                                                                                                           \
  };                                                                                                                            \
  }

// Placeholders and operands of 4 registers, 16 registers at a time.
#define TL_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TL_D16(i) TL_D4(i), TL_D4(i + 4), TL_D4(i + 8), TL_D4(i + 12)

#define TL_P16_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define TL_P16_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TL_P16_2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define TL_P16_3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define TL_P16_4 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define TL_P16_5 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define TL_P16_6 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define TL_P16_7 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

#define TL_PLACES_8 "%0,%1,%2,%3"
#define TL_OPERANDS_8 TL_D4(0)
#define TL_WGMMA_SS_8(TYPE) TL_WGMMA_SS_IMPL(8, TYPE, TL_PLACES_8, TL_OPERANDS_8, "%4", "%5", "%6", "%7", "%8")
#define TL_WGMMA_RS_8(TYPE) TL_WGMMA_RS_IMPL(8, TYPE, TL_PLACES_8, TL_OPERANDS_8, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
#define TL_PLACES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TL_OPERANDS_16 TL_D4(0), TL_D4(4)
#define TL_WGMMA_SS_16(TYPE) TL_WGMMA_SS_IMPL(16, TYPE, TL_PLACES_16, TL_OPERANDS_16, "%8", "%9", "%10", "%11", "%12")
#define TL_WGMMA_RS_16(TYPE) TL_WGMMA_RS_IMPL(16, TYPE, TL_PLACES_16, TL_OPERANDS_16, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
#define TL_PLACES_24 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11"
#define TL_OPERANDS_24 TL_D4(0), TL_D4(4), TL_D4(8)
#define TL_WGMMA_SS_24(TYPE) TL_WGMMA_SS_IMPL(24, TYPE, TL_PLACES_24, TL_OPERANDS_24, "%12", "%13", "%14", "%15", "%16")
#define TL_WGMMA_RS_24(TYPE) TL_WGMMA_RS_IMPL(24, TYPE, TL_PLACES_24, TL_OPERANDS_24, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
#define TL_PLACES_32 TL_P16_0
#define TL_OPERANDS_32 TL_D16(0)
#define TL_WGMMA_SS_32(TYPE) TL_WGMMA_SS_IMPL(32, TYPE, TL_PLACES_32, TL_OPERANDS_32, "%16", "%17", "%18", "%19", "%20")
#define TL_WGMMA_RS_32(TYPE) TL_WGMMA_RS_IMPL(32, TYPE, TL_PLACES_32, TL_OPERANDS_32, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
#define TL_PLACES_40 TL_P16_0 "," "%16,%17,%18,%19"
#define TL_OPERANDS_40 TL_D16(0), TL_D4(16)
#define TL_WGMMA_SS_40(TYPE) TL_WGMMA_SS_IMPL(40, TYPE, TL_PLACES_40, TL_OPERANDS_40, "%20", "%21", "%22", "%23", "%24")
#define TL_WGMMA_RS_40(TYPE) TL_WGMMA_RS_IMPL(40, TYPE, TL_PLACES_40, TL_OPERANDS_40, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
#define TL_PLACES_48 TL_P16_0 "," "%16,%17,%18,%19,%20,%21,%22,%23"
#define TL_OPERANDS_48 TL_D16(0), TL_D4(16), TL_D4(20)
#define TL_WGMMA_SS_48(TYPE) TL_WGMMA_SS_IMPL(48, TYPE, TL_PLACES_48, TL_OPERANDS_48, "%24", "%25", "%26", "%27", "%28")
#define TL_WGMMA_RS_48(TYPE) TL_WGMMA_RS_IMPL(48, TYPE, TL_PLACES_48, TL_OPERANDS_48, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
#define TL_PLACES_56 TL_P16_0 "," "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27"
#define TL_OPERANDS_56 TL_D16(0), TL_D4(16), TL_D4(20), TL_D4(24)
#define TL_WGMMA_SS_56(TYPE) TL_WGMMA_SS_IMPL(56, TYPE, TL_PLACES_56, TL_OPERANDS_56, "%28", "%29", "%30", "%31", "%32")
#define TL_WGMMA_RS_56(TYPE) TL_WGMMA_RS_IMPL(56, TYPE, TL_PLACES_56, TL_OPERANDS_56, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
#define TL_PLACES_64 TL_P16_0 "," TL_P16_1
#define TL_OPERANDS_64 TL_D16(0), TL_D16(16)
#define TL_WGMMA_SS_64(TYPE) TL_WGMMA_SS_IMPL(64, TYPE, TL_PLACES_64, TL_OPERANDS_64, "%32", "%33", "%34", "%35", "%36")
#define TL_WGMMA_RS_64(TYPE) TL_WGMMA_RS_IMPL(64, TYPE, TL_PLACES_64, TL_OPERANDS_64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
#define TL_PLACES_72 TL_P16_0 "," TL_P16_1 "," "%32,%33,%34,%35"
#define TL_OPERANDS_72 TL_D16(0), TL_D16(16), TL_D4(32)
#define TL_WGMMA_SS_72(TYPE) TL_WGMMA_SS_IMPL(72, TYPE, TL_PLACES_72, TL_OPERANDS_72, "%36", "%37", "%38", "%39", "%40")
#define TL_WGMMA_RS_72(TYPE) TL_WGMMA_RS_IMPL(72, TYPE, TL_PLACES_72, TL_OPERANDS_72, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
#define TL_PLACES_80 TL_P16_0 "," TL_P16_1 "," "%32,%33,%34,%35,%36,%37,%38,%39"
#define TL_OPERANDS_80 TL_D16(0), TL_D16(16), TL_D4(32), TL_D4(36)
#define TL_WGMMA_SS_80(TYPE) TL_WGMMA_SS_IMPL(80, TYPE, TL_PLACES_80, TL_OPERANDS_80, "%40", "%41", "%42", "%43", "%44")
#define TL_WGMMA_RS_80(TYPE) TL_WGMMA_RS_IMPL(80, TYPE, TL_PLACES_80, TL_OPERANDS_80, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
#define TL_PLACES_88 TL_P16_0 "," TL_P16_1 "," "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43"
#define TL_OPERANDS_88 TL_D16(0), TL_D16(16), TL_D4(32), TL_D4(36), TL_D4(40)
#define TL_WGMMA_SS_88(TYPE) TL_WGMMA_SS_IMPL(88, TYPE, TL_PLACES_88, TL_OPERANDS_88, "%44", "%45", "%46", "%47", "%48")
#define TL_WGMMA_RS_88(TYPE) TL_WGMMA_RS_IMPL(88, TYPE, TL_PLACES_88, TL_OPERANDS_88, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
#define TL_PLACES_96 TL_P16_0 "," TL_P16_1 "," TL_P16_2
#define TL_OPERANDS_96 TL_D16(0), TL_D16(16), TL_D16(32)
#define TL_WGMMA_SS_96(TYPE) TL_WGMMA_SS_IMPL(96, TYPE, TL_PLACES_96, TL_OPERANDS_96, "%48", "%49", "%50", "%51", "%52")
#define TL_WGMMA_RS_96(TYPE) TL_WGMMA_RS_IMPL(96, TYPE, TL_PLACES_96, TL_OPERANDS_96, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
#define TL_PLACES_104 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," "%48,%49,%50,%51"
#define TL_OPERANDS_104 TL_D16(0), TL_D16(16), TL_D16(32), TL_D4(48)
#define TL_WGMMA_SS_104(TYPE) TL_WGMMA_SS_IMPL(104, TYPE, TL_PLACES_104, TL_OPERANDS_104, "%52", "%53", "%54", "%55", "%56")
#define TL_WGMMA_RS_104(TYPE) TL_WGMMA_RS_IMPL(104, TYPE, TL_PLACES_104, TL_OPERANDS_104, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
#define TL_PLACES_112 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," "%48,%49,%50,%51,%52,%53,%54,%55"
#define TL_OPERANDS_112 TL_D16(0), TL_D16(16), TL_D16(32), TL_D4(48), TL_D4(52)
#define TL_WGMMA_SS_112(TYPE) TL_WGMMA_SS_IMPL(112, TYPE, TL_PLACES_112, TL_OPERANDS_112, "%56", "%57", "%58", "%59", "%60")
#define TL_WGMMA_RS_112(TYPE) TL_WGMMA_RS_IMPL(112, TYPE, TL_PLACES_112, TL_OPERANDS_112, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
#define TL_PLACES_120 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59"
#define TL_OPERANDS_120 TL_D16(0), TL_D16(16), TL_D16(32), TL_D4(48), TL_D4(52), TL_D4(56)
#define TL_WGMMA_SS_120(TYPE) TL_WGMMA_SS_IMPL(120, TYPE, TL_PLACES_120, TL_OPERANDS_120, "%60", "%61", "%62", "%63", "%64")
#define TL_WGMMA_RS_120(TYPE) TL_WGMMA_RS_IMPL(120, TYPE, TL_PLACES_120, TL_OPERANDS_120, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
#define TL_PLACES_128 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3
#define TL_OPERANDS_128 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48)
#define TL_WGMMA_SS_128(TYPE) TL_WGMMA_SS_IMPL(128, TYPE, TL_PLACES_128, TL_OPERANDS_128, "%64", "%65", "%66", "%67", "%68")
#define TL_WGMMA_RS_128(TYPE) TL_WGMMA_RS_IMPL(128, TYPE, TL_PLACES_128, TL_OPERANDS_128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
#define TL_PLACES_136 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," "%64,%65,%66,%67"
#define TL_OPERANDS_136 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D4(64)
#define TL_WGMMA_SS_136(TYPE) TL_WGMMA_SS_IMPL(136, TYPE, TL_PLACES_136, TL_OPERANDS_136, "%68", "%69", "%70", "%71", "%72")
#define TL_WGMMA_RS_136(TYPE) TL_WGMMA_RS_IMPL(136, TYPE, TL_PLACES_136, TL_OPERANDS_136, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
#define TL_PLACES_144 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," "%64,%65,%66,%67,%68,%69,%70,%71"
#define TL_OPERANDS_144 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D4(64), TL_D4(68)
#define TL_WGMMA_SS_144(TYPE) TL_WGMMA_SS_IMPL(144, TYPE, TL_PLACES_144, TL_OPERANDS_144, "%72", "%73", "%74", "%75", "%76")
#define TL_WGMMA_RS_144(TYPE) TL_WGMMA_RS_IMPL(144, TYPE, TL_PLACES_144, TL_OPERANDS_144, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
#define TL_PLACES_152 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75"
#define TL_OPERANDS_152 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D4(64), TL_D4(68), TL_D4(72)
#define TL_WGMMA_SS_152(TYPE) TL_WGMMA_SS_IMPL(152, TYPE, TL_PLACES_152, TL_OPERANDS_152, "%76", "%77", "%78", "%79", "%80")
#define TL_WGMMA_RS_152(TYPE) TL_WGMMA_RS_IMPL(152, TYPE, TL_PLACES_152, TL_OPERANDS_152, "%76", "%77", "%78", "%79", "%80", "%81", "%82")
#define TL_PLACES_160 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4
#define TL_OPERANDS_160 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64)
#define TL_WGMMA_SS_160(TYPE) TL_WGMMA_SS_IMPL(160, TYPE, TL_PLACES_160, TL_OPERANDS_160, "%80", "%81", "%82", "%83", "%84")
#define TL_WGMMA_RS_160(TYPE) TL_WGMMA_RS_IMPL(160, TYPE, TL_PLACES_160, TL_OPERANDS_160, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
#define TL_PLACES_168 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," "%80,%81,%82,%83"
#define TL_OPERANDS_168 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D4(80)
#define TL_WGMMA_SS_168(TYPE) TL_WGMMA_SS_IMPL(168, TYPE, TL_PLACES_168, TL_OPERANDS_168, "%84", "%85", "%86", "%87", "%88")
#define TL_WGMMA_RS_168(TYPE) TL_WGMMA_RS_IMPL(168, TYPE, TL_PLACES_168, TL_OPERANDS_168, "%84", "%85", "%86", "%87", "%88", "%89", "%90")
#define TL_PLACES_176 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," "%80,%81,%82,%83,%84,%85,%86,%87"
#define TL_OPERANDS_176 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D4(80), TL_D4(84)
#define TL_WGMMA_SS_176(TYPE) TL_WGMMA_SS_IMPL(176, TYPE, TL_PLACES_176, TL_OPERANDS_176, "%88", "%89", "%90", "%91", "%92")
#define TL_WGMMA_RS_176(TYPE) TL_WGMMA_RS_IMPL(176, TYPE, TL_PLACES_176, TL_OPERANDS_176, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
#define TL_PLACES_184 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91"
#define TL_OPERANDS_184 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D4(80), TL_D4(84), TL_D4(88)
#define TL_WGMMA_SS_184(TYPE) TL_WGMMA_SS_IMPL(184, TYPE, TL_PLACES_184, TL_OPERANDS_184, "%92", "%93", "%94", "%95", "%96")
#define TL_WGMMA_RS_184(TYPE) TL_WGMMA_RS_IMPL(184, TYPE, TL_PLACES_184, TL_OPERANDS_184, "%92", "%93", "%94", "%95", "%96", "%97", "%98")
#define TL_PLACES_192 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5
#define TL_OPERANDS_192 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80)
#define TL_WGMMA_SS_192(TYPE) TL_WGMMA_SS_IMPL(192, TYPE, TL_PLACES_192, TL_OPERANDS_192, "%96", "%97", "%98", "%99", "%100")
#define TL_WGMMA_RS_192(TYPE) TL_WGMMA_RS_IMPL(192, TYPE, TL_PLACES_192, TL_OPERANDS_192, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
#define TL_PLACES_200 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," "%96,%97,%98,%99"
#define TL_OPERANDS_200 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D4(96)
#define TL_WGMMA_SS_200(TYPE) TL_WGMMA_SS_IMPL(200, TYPE, TL_PLACES_200, TL_OPERANDS_200, "%100", "%101", "%102", "%103", "%104")
#define TL_WGMMA_RS_200(TYPE) TL_WGMMA_RS_IMPL(200, TYPE, TL_PLACES_200, TL_OPERANDS_200, "%100", "%101", "%102", "%103", "%104", "%105", "%106")
#define TL_PLACES_208 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," "%96,%97,%98,%99,%100,%101,%102,%103"
#define TL_OPERANDS_208 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D4(96), TL_D4(100)
#define TL_WGMMA_SS_208(TYPE) TL_WGMMA_SS_IMPL(208, TYPE, TL_PLACES_208, TL_OPERANDS_208, "%104", "%105", "%106", "%107", "%108")
#define TL_WGMMA_RS_208(TYPE) TL_WGMMA_RS_IMPL(208, TYPE, TL_PLACES_208, TL_OPERANDS_208, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
#define TL_PLACES_216 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107"
#define TL_OPERANDS_216 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D4(96), TL_D4(100), TL_D4(104)
#define TL_WGMMA_SS_216(TYPE) TL_WGMMA_SS_IMPL(216, TYPE, TL_PLACES_216, TL_OPERANDS_216, "%108", "%109", "%110", "%111", "%112")
#define TL_WGMMA_RS_216(TYPE) TL_WGMMA_RS_IMPL(216, TYPE, TL_PLACES_216, TL_OPERANDS_216, "%108", "%109", "%110", "%111", "%112", "%113", "%114")
#define TL_PLACES_224 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," TL_P16_6
#define TL_OPERANDS_224 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D16(96)
#define TL_WGMMA_SS_224(TYPE) TL_WGMMA_SS_IMPL(224, TYPE, TL_PLACES_224, TL_OPERANDS_224, "%112", "%113", "%114", "%115", "%116")
#define TL_WGMMA_RS_224(TYPE) TL_WGMMA_RS_IMPL(224, TYPE, TL_PLACES_224, TL_OPERANDS_224, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
#define TL_PLACES_232 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," TL_P16_6 "," "%112,%113,%114,%115"
#define TL_OPERANDS_232 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D16(96), TL_D4(112)
#define TL_WGMMA_SS_232(TYPE) TL_WGMMA_SS_IMPL(232, TYPE, TL_PLACES_232, TL_OPERANDS_232, "%116", "%117", "%118", "%119", "%120")
#define TL_WGMMA_RS_232(TYPE) TL_WGMMA_RS_IMPL(232, TYPE, TL_PLACES_232, TL_OPERANDS_232, "%116", "%117", "%118", "%119", "%120", "%121", "%122")
#define TL_PLACES_240 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," TL_P16_6 "," "%112,%113,%114,%115,%116,%117,%118,%119"
#define TL_OPERANDS_240 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D16(96), TL_D4(112), TL_D4(116)
#define TL_WGMMA_SS_240(TYPE) TL_WGMMA_SS_IMPL(240, TYPE, TL_PLACES_240, TL_OPERANDS_240, "%120", "%121", "%122", "%123", "%124")
#define TL_WGMMA_RS_240(TYPE) TL_WGMMA_RS_IMPL(240, TYPE, TL_PLACES_240, TL_OPERANDS_240, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
#define TL_PLACES_248 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," TL_P16_6 "," "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123"
#define TL_OPERANDS_248 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D16(96), TL_D4(112), TL_D4(116), TL_D4(120)
#define TL_WGMMA_SS_248(TYPE) TL_WGMMA_SS_IMPL(248, TYPE, TL_PLACES_248, TL_OPERANDS_248, "%124", "%125", "%126", "%127", "%128")
#define TL_WGMMA_RS_248(TYPE) TL_WGMMA_RS_IMPL(248, TYPE, TL_PLACES_248, TL_OPERANDS_248, "%124", "%125", "%126", "%127", "%128", "%129", "%130")
#define TL_PLACES_256 TL_P16_0 "," TL_P16_1 "," TL_P16_2 "," TL_P16_3 "," TL_P16_4 "," TL_P16_5 "," TL_P16_6 "," TL_P16_7
#define TL_OPERANDS_256 TL_D16(0), TL_D16(16), TL_D16(32), TL_D16(48), TL_D16(64), TL_D16(80), TL_D16(96), TL_D16(112)
#define TL_WGMMA_SS_256(TYPE) TL_WGMMA_SS_IMPL(256, TYPE, TL_PLACES_256, TL_OPERANDS_256, "%128", "%129", "%130", "%131", "%132")
#define TL_WGMMA_RS_256(TYPE) TL_WGMMA_RS_IMPL(256, TYPE, TL_PLACES_256, TL_OPERANDS_256, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
