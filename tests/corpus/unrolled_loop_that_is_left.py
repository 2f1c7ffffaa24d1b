"""Not compilable once: `break` and `continue` of a loop that was laid out round after round left a loop that was not there."""
import tilelang.language as T

CASES = [{"word": word, "inside": inside} for word in ("break", "continue") for inside in (False, True)]


def program(word, inside):
    @T.prim_func
    def kernel(A: T.Tensor((128,), "float32"), Out: T.Tensor((128,), "float32")):
        with T.Kernel(2, threads=64) as bx:
            tile = T.alloc_fragment((64,), "float32")
            T.clear(tile)
            for outer in T.serial(3 if inside else 1):
                for k in T.unroll(4):
                    if (k + bx + outer) % 2 == 1:
                        if word == "break":
                            break
                        else:  # noqa: RET508 - one of the two is built
                            continue
                    for i in T.Parallel(64):
                        tile[i] += A[bx * 64 + i] + k
            T.copy(tile, Out[bx * 64])

    return kernel
