"""An `if` inside a pipelined loop whose condition is loaded from a tensor: which tiles count is known only at run time."""
import tilelang.language as T

CASES = [{"stages": stages, "around": around} for stages in (1, 2, 3) for around in ("gemm", "copies", "all")]


def program(stages, around):
    @T.prim_func
    def kernel(
        index: T.Tensor((8,), "int32"), A: T.Tensor((64, 160), "float16"), B: T.Tensor((160, 32), "float16"),
        Out: T.Tensor((64, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            T.clear(acc)
            T.clear(a)
            T.clear(b)
            for k in T.Pipelined(5, num_stages=stages):
                if around == "gemm":
                    T.copy(A[bx * 64, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    if index[k] > 3:
                        T.gemm(a, b, acc)
                elif around == "copies":
                    if index[k] > 3:
                        T.copy(A[bx * 64, k * 32], a)
                        T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, acc)
                else:
                    if index[k] > 3:
                        T.copy(A[bx * 64, k * 32], a)
                        T.copy(B[k * 32, 0], b)
                        T.gemm(a, b, acc)
            T.copy(acc, Out)

    return kernel
