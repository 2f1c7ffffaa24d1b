// TMA: whole boxes between global memory and swizzled shared memory, through a tensor map.
// Coordinates are in elements, innermost first; what lies outside the tensor reads as zero and is not written.
#pragma once
#include "tl_types.cuh"

namespace tl {

TL_DEVICE void tma_load(const CUtensorMap& map, uint64_t& barrier, uint32_t shared, int c0) {
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::"r"(shared),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0)
      : "memory");
}
TL_DEVICE void tma_load(const CUtensorMap& map, uint64_t& barrier, uint32_t shared, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1)
      : "memory");
}
TL_DEVICE void tma_load(const CUtensorMap& map, uint64_t& barrier, uint32_t shared, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
TL_DEVICE void tma_load(const CUtensorMap& map, uint64_t& barrier, uint32_t shared, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
TL_DEVICE void tma_load(const CUtensorMap& map, uint64_t& barrier, uint32_t shared, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
TL_DEVICE void tma_store(const CUtensorMap& map, uint32_t shared, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" ::"l"(&map), "r"(shared),
               "r"(c0)
               : "memory");
}
TL_DEVICE void tma_store(const CUtensorMap& map, uint32_t shared, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(shared),
               "r"(c0), "r"(c1)
               : "memory");
}
TL_DEVICE void tma_store(const CUtensorMap& map, uint32_t shared, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(shared),
               "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
TL_DEVICE void tma_store(const CUtensorMap& map, uint32_t shared, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(shared),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
TL_DEVICE void tma_store(const CUtensorMap& map, uint32_t shared, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map), "r"(shared),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

TL_DEVICE void tma_store_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `Pending` groups of this thread may still read shared memory.
template <int Pending>
TL_DEVICE void tma_store_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Until at most `Pending` groups of this thread are not complete, their writes included.
template <int Pending>
TL_DEVICE void tma_store_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace tl
