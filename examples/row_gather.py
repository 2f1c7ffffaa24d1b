"""Out[i] = Table[rows[i]]: the lookup of an embedding, in which every row of a tile comes from somewhere else.

    python examples/row_gather.py

A row number outside the table gives a row of zeros: reads outside an array are 0.
"""
import numpy as np
from harness import Bound, check, gpu, on_gpu, random

import tilelang
import tilelang.language as T


def row_gather(rows_of_table, count, width, block_rows=8, threads=128):
    @T.prim_func
    def gather(
        Table: T.Tensor((rows_of_table, width), "float16"), rows: T.Tensor((count,), "int32"),
        Out: T.Tensor((count, width), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(count, block_rows), threads=threads) as bx:
            for i, j in T.Parallel(block_rows, width):
                Out[bx * block_rows + i, j] = Table[rows[bx * block_rows + i], j]

    return gather


def inputs(rows_of_table, count, width):
    """A table and row numbers, of which the first is outside the table."""
    rows = np.random.default_rng(1).integers(0, rows_of_table, count).astype(np.int32)
    rows[0] = rows_of_table
    return random(rows_of_table, width), rows


def expected(Table, rows) -> Bound:
    """The exact result, which nothing may change."""
    exact = np.vstack([Table, np.zeros_like(Table[:1])])[rows].astype(np.float64)
    return exact, np.full(exact.shape, 1e-300)


def main():
    kernel = tilelang.compile(row_gather(1000, 100, 512), out_idx=[2])
    arrays = inputs(1000, 100, 512)
    check("CPU: 100 rows of 1000 x 512", kernel(*arrays), expected(*arrays))

    if gpu():
        table, count, width = 32_000, 16_384, 4096
        kernel = tilelang.compile(row_gather(table, count, width), out_idx=[2])
        arrays = inputs(table, count, width)
        out, seconds = on_gpu(kernel, *arrays)
        speed = f"{seconds * 1e6:.0f} us, {2 * out.nbytes / seconds / 1e9:.0f} GB/s"
        check(f"GPU: {count} rows of {table} x {width}, {speed}", out, expected(*arrays))


if __name__ == "__main__":
    main()
