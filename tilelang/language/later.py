"""Names of the language that are not there yet, so that using one says so instead of looking like a typo."""

from __future__ import annotations

_NAMES = """
    empty const dynamic symbolic StridedTensor ptr make_tensor make_tensor_from_addr access_ptr SharedBuffer FragmentBuffer
    LocalBuffer alloc_global alloc_tmem alloc_cluster_barrier alloc_buffer alloc_reducer alloc_descriptor alloc_wgmma_desc
    alloc_tcgen05_smem_desc alloc_tcgen05_instr_desc alloc_tcgen05_instruction_desc Layout Fragment PartialFragment
    annotate_ws_pipeline_depth annotate_compile_flags annotate_pass_configs get_thread_bindings
    get_block_binding get_block_bindings get_thread_extent get_thread_extents get_block_extent get_block_extents get_cluster_id
    get_cluster_ids get_cluster_dims get_cluster_extent get_cluster_extents get_cluster_size get_lane_idx get_warp_idx
    get_warp_idx_sync get_warp_group_idx thread_binding KernelLaunchFrame ClusterKernel CUDASourceCodeKernel Persistent
    PersistentTileScheduler BaseTileScheduler parallel WarpSpecializeFrame WSID WSPipeline WSRole WSSchedule WSScope WSSync
    WSSyncKind WSInstr WSOpRef annotate_ws_schedule ws_op atomic_add atomic_addx2 atomic_addx4 atomic_max atomic_min atomic_or
    atomic_load atomic_store cumsum cummax reduce reduce_bitand reduce_bitor reduce_bitxor finalize_reducer reducer_init
    reducer_update warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor comm_reducer
    tvm_thread_allreduce any_of all_of tma_load tma_store_arrive tma_store_wait tma_gather4 tma_gather4_bytes tma_scatter4
    create_tma_descriptor async_copy copy_cluster transpose im2col c2d_im2col ptx_cp_async ptx_commit_group ptx_wait_group
    cp_async_barrier_noinc mbarrier_expect_tx mbarrier_arrive_expect_tx named_barrier_arrive sync_warp sync_grid syncthreads_and
    syncthreads_or syncthreads_count wgmma_gemm wait_wgmma wgmma_mma wgmma_gemm_sp warpgroup_arrive warpgroup_commit_batch
    warpgroup_wait warpgroup_fence_operand initialize_wgmma_descriptor increase_descriptor_offset gemm_sp gemm_blockscaled
    mma_gemm_blockscaled dp4a tcgen05_gemm tcgen05_gemm_blockscaled tcgen05_gemm_sp tcgen05_mma tcgen05_mma_arrive
    tcgen05_mma_blockscaled tcgen05_cp_warpx4 tcgen05_sf_warp_transpose tcgen05_after_thread_sync tcgen05_before_thread_sync
    deallocate_tmem cluster_sync cluster_arrive cluster_wait cluster_arrive_relaxed block_rank_in_cluster clc_get_first_ctaid_x
    clc_get_first_ctaid_y clc_get_first_ctaid_z clc_is_canceled clc_try_cancel clc_try_cancel_multicast pdl_sync pdl_trigger
    shfl_sync shuffle_elect any_sync all_sync ballot ballot_sync activemask match_any_sync match_all_sync tvm_warp_shuffle ldg32
    ldg64 ldg128 ldg256 stg32 stg64 stg128 stg256 lds32 lds64 lds128 sts32 sts64 sts128 call_extern call_intrin call_pure_extern
    call_kernel import_source evaluate attr print device_assert Assert rng_init rng_rand rng_rand_float index_to_coordinates
    align_up meta_class inline get_let_value has_let_value loop_break tan asin acos atan atan2 sinh cosh asinh acosh atanh exp10
    log10 log1p fmod hypot copysign ldexp popcount clz fma fmul ieee_add ieee_sub ieee_mul ieee_fmaf ieee_frcp ieee_fsqrt
    ieee_frsqrt ieee_fdiv fast_rcp abs2 add2 sub2 mul2 fma2 max2 min2 handle match_buffer decl_buffer sblock block reads writes
    func_attr launch_thread let Let While If Then Else Range Ramp Broadcast Shuffle Var PrimExpr PrimFunc JITFunc
"""
NAMES = frozenset(_NAMES.split())

INSTEAD = {
    "print": "call the kernel with NumPy arrays, which runs it on the CPU, and print what it wrote",
    "Persistent": "write the loop over tiles with T.serial; a GEMM of many tiles is compiled to one anyway",
    **dict.fromkeys(
        ("atomic_add", "atomic_addx2", "atomic_addx4", "atomic_max", "atomic_min", "atomic_or"),
        "let each block write a partial result of its own, and combine them in a second kernel",
    ),
    **dict.fromkeys(("wgmma_gemm", "wait_wgmma", "mbarrier_expect_tx"), "T.gemm and T.tma_copy do it themselves"),
}
"""What to write in place of a name that is not there yet."""
FORMULAS = {
    "relu": "T.max(x, 0)", "leaky_relu": "T.max(x, 0.01 * x)", "silu": "x * T.sigmoid(x)", "swish": "x * T.sigmoid(x)",
    "gelu": "0.5 * x * (1 + T.erf(x * 0.70710678))", "softplus": "T.log(1 + T.exp(x))", "square": "x * x",
    "exp10": "T.exp2(x * 3.32192809)", "log10": "T.log2(x) * 0.30103", "mean": "T.reduce_sum, divided by the length",
    "softmax": "T.reduce_max, T.exp and T.reduce_sum, as examples/online_softmax.py does",
}  # fmt: skip
"""Names that people look for, and how the language says them."""
