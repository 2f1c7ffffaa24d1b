"""Wrong number: indices of 8 bits, and unsigned ones, were reckoned with as if they could not wrap."""
import tilelang.language as T

SCALARS = {"first": 192}


def codebook():
    """A table in shared memory, looked up by codes of 8 bits: the address was computed in 8 bits."""

    @T.prim_func
    def kernel(index: T.Tensor((256,), "uint8"), S: T.Tensor((256,), "float32"), Out: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            table = T.alloc_shared((256,), "float32")
            T.copy(S, table)
            for j in T.Parallel(256):
                Out[j] = table[index[j] + T.cast(100 + j % 150, "uint8")]

    return kernel


def rows():
    """Rows of a shared tile named by 8 bits: read, written, through a view, by a name, and in a fragment."""

    @T.prim_func
    def kernel(
        index: T.Tensor((64,), "uint8"), S: T.Tensor((64, 64), "float32"), O1: T.Tensor((64, 64), "float32"),
        O2: T.Tensor((64, 64), "float32"), O3: T.Tensor((64, 64), "float32"), O4: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=64) as bx:
            tile, other = T.alloc_shared((64, 64), "float32"), T.alloc_shared((64, 64), "float32")
            part = T.alloc_fragment((64, 64), "float32")
            T.copy(S, tile)
            flat = T.reshape(tile, (4096,))
            for i, j in T.Parallel(64, 64):
                O1[i, j] = tile[index[i] + T.cast(i % 56, "uint8"), j]
            for i, j in T.Parallel(64, 64):
                O2[i, j] = flat[T.cast(T.cast(i, "uint8"), "int32") * 64 + j]
            for i, j in T.Parallel(64, 64):
                other[T.cast(63 - i, "uint8"), j] = S[i, j]
            row = T.cast(bx + 5, "uint8")
            for i, j in T.Parallel(64, 64):
                O3[i, j] = other[i, j] + tile[row, j]
            T.copy(tile, part)
            for i, j in T.Parallel(64, 64):
                O4[i, j] = part[T.cast(i, "uint8"), T.cast(j, "uint8")]

    return kernel


def before_the_start():
    """int8 of 128 and more is negative, and outside."""

    @T.prim_func
    def kernel(S: T.Tensor((128,), "float32"), Out: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for j in T.Parallel(256):
                Out[j] = S[T.cast(j, "int8")]

    return kernel


def across_a_wrap():
    """Four neighbours in one access, between which the index wraps."""

    @T.prim_func
    def kernel(S: T.Tensor((512,), "float32"), Out: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for j in T.Parallel(256):
                Out[j] = S[T.cast(T.cast(j + 254, "uint8"), "int32") + 2]

    return kernel


def below_zero():
    """An unsigned index one below zero is far outside."""

    @T.prim_func
    def kernel(S: T.Tensor((256,), "float32"), Out: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for j in T.Parallel(256):
                Out[j] = S[T.cast(j, "uint32") - T.cast(1, "uint32")]

    return kernel


def boxes():
    """The second box of a TMA transfer, 64 columns on from column 192."""

    @T.prim_func
    def kernel(
        B: T.Tensor((64, 512), "float16"), O1: T.Tensor((64, 128), "float16"), O2: T.Tensor((64, 512), "float16"), first: T.uint8,
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 128), "float16")
            T.copy(B[0, first], tile)
            T.copy(tile, O1)
            T.copy(tile, O2[0, first])

    return kernel


def program(which):
    return globals()[which]()


CASES = [{"which": which} for which in ("codebook", "rows", "before_the_start", "across_a_wrap", "below_zero", "boxes")]
