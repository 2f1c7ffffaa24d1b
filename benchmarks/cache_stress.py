"""The cache of compiled programs under stress, and how quickly it answers.  Needs no GPU.

    python benchmarks/cache_stress.py [--seconds 60] [--processes 32] [--keys 200] [--output FOLDER]

    stress   processes that all read and write the same keys in one folder, delete entries at random, and are killed at random;
             every program that is read is compared with what it must be
    faults   every error number at every call of the operating system that the cache makes, one call at a time: the caller gets
             the right program, hears at most one warning, and the folder holds no wrong one afterwards
    start    from the start of an interpreter to the cubin of a GEMM, with a warm cache (and with none)
"""
from __future__ import annotations

import argparse
import ast
import errno
import hashlib
import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
if __package__ in (None, ""):
    sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from tilelang.runtime import cache, disk, nvrtc  # noqa: E402
from tilelang.runtime.nvrtc import Cubin, Resources  # noqa: E402
from tilelang.runtime.toolchain import Toolchain  # noqa: E402

IMAGE_BYTES_MAX = 600_000


def program(key: int) -> tuple[str, Cubin]:
    """Digest and compiled program number `key`: as large as cubins are, every byte of it known."""
    source = random.Random(key)
    name = f"kernel_{key}"
    size = source.randrange(1000, IMAGE_BYTES_MAX)
    image = (source.randbytes(997) * (size // 997 + 1))[:size]
    return digest_of(key), Cubin(image, {name: Resources(key, 0, 0, 0, 0)}, (), f"log of {name}")


def digest_of(key: int) -> str:
    return hashlib.sha256(f"kernel_{key}".encode()).hexdigest()


# ---- stress


def work(folder: str, keys: int, seed: int, results: Any) -> None:
    """One process: reads, checks, writes what is not there, deletes now and then; reports its counts every 50 steps."""
    logging.getLogger("tilelang").addHandler(logging.NullHandler())
    store, source = disk.Store(folder), random.Random(seed)
    counts: Counter[str] = Counter()
    for step in range(1 << 60):
        digest, expected = program(source.randrange(keys))
        found = store.find(digest)
        counts["reads" if found is not None else "misses"] += 1
        if found is None:
            store.publish(digest, {}, expected)
        elif found != expected:
            counts["corrupt"] += 1
        if source.random() < 0.03:
            Path(folder, digest_of(source.randrange(keys)) + disk.SUFFIX).unlink(missing_ok=True)
            counts["deletions"] += 1
        if step % 50 == 49:
            results.put(dict(counts))
            counts.clear()


def stress(processes: int, keys: int, seconds: float, folder: str, kill_every: float = 0.25) -> dict[str, int]:
    """Counts of `processes` workers over `keys` programs; one worker is killed (SIGKILL) every `kill_every` seconds and another
    takes its place.  Afterwards every file that is left is checked."""
    context = multiprocessing.get_context("spawn")
    total: Counter[str] = Counter()
    seeds = iter(range(1 << 30))
    crew: list[Any] = []

    def hire() -> None:
        # a queue of its own for each: a process killed in a shared queue's lock would stop all others
        results = context.SimpleQueue()
        worker = context.Process(target=work, args=(folder, keys, next(seeds), results), daemon=True)
        worker.start()
        crew.append((worker, results))

    def collect() -> None:
        for _, results in crew:
            while not results.empty():
                total.update(results.get())

    for _ in range(processes):
        hire()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(kill_every)
        collect()
        worker, _ = crew.pop(random.randrange(len(crew)))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        total["kills"] += 1
        hire()
    collect()
    for worker, _ in crew:
        worker.kill()
        worker.join()
    return {**{name: total[name] for name in ("reads", "corrupt", "misses", "deletions", "kills")}, **leftovers(folder, keys)}


def leftovers(folder: str, keys: int) -> dict[str, int]:
    """What the folder holds at the end: whole entries, bad ones, temporary files, and how many of these a sweep an hour later
    leaves."""
    store = disk.Store(folder)
    found = [(store.find(digest), expected) for digest, expected in map(program, range(keys))]
    names = os.listdir(folder)
    old = time.time() - disk.STALE_SECONDS - 60
    temporary = [name for name in names if name.startswith(disk.TEMPORARY)]
    for name in temporary:
        os.utime(os.path.join(folder, name), (old, old))
    store.sweep()
    return {
        "entries_left": sum(program is not None for program, _ in found),
        "corrupt_left": sum(program is not None and program != expected for program, expected in found),
        "temporary_files_left": len(temporary),
        "temporary_files_after_sweep": sum(name.startswith(disk.TEMPORARY) for name in os.listdir(folder)),
    }


# ---- faults

CALLS = tuple(name for name in vars(disk.Files) if not name.startswith("_"))
HEADER = 'extern "C" __global__ void f() {}'


class Faulty:
    """The calls of the operating system, written down; where `failing(index, name)` says so they fail with an error number."""

    def __init__(self, failing: Callable[[int, str], bool] = lambda index, name: False, number: int = 0) -> None:
        self.calls: list[str] = []
        self._failing, self._number = failing, number

    def __getattr__(self, name: str) -> Any:
        real = getattr(disk.Files, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append(name)
            if not self._failing(len(self.calls) - 1, name):
                return real(*arguments, **keywords)
            if name == "close":
                real(*arguments)  # the handle is gone whatever close says
            raise OSError(self._number, os.strerror(self._number))

        return call


def _nothing(folder: Path, entry: Path) -> None:
    """The cache was never used."""


def _full(folder: Path, entry: Path) -> None:
    """The program is there, read long ago."""
    folder.mkdir(parents=True)
    shutil.copy(WHOLE, entry)
    os.utime(entry, (0, 0))


def _damaged(folder: Path, entry: Path) -> None:
    """The program is there, cut short."""
    folder.mkdir(parents=True)
    entry.write_bytes(WHOLE.read_bytes()[:-1])


def _crowded(folder: Path, entry: Path) -> None:
    """Others' programs, too many of them, and what a dead writer left."""
    folder.mkdir(parents=True)
    for name in (f"{'0' * 64}{disk.SUFFIX}", f"{'1' * 64}{disk.SUFFIX}", f"{disk.TEMPORARY}1-dead"):
        (folder / name).write_bytes(bytes(1000))
        os.utime(folder / name, (0, 0))


def _occupied(folder: Path, entry: Path) -> None:
    """A folder in the program's place."""
    (entry / "full").mkdir(parents=True)


SCENES = (_nothing, _full, _damaged, _crowded, _occupied)
WHOLE = Path(tempfile.gettempdir(), f"tilelang-stress-{os.getpid()}-entry")
TOOLCHAIN = Toolchain(version="0", library="a stand-in", builtins=())
DIGEST, PROGRAM = "", Cubin(b"\x7fELF" + bytes(500), {"f": Resources(8, 0, 0, 0, 0)}, (), "log")


class _Counting(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def attempt(folder: Path, files: Any) -> tuple[Cubin, list[str], list[str]]:
    """The program through a process's fresh cache over `folder`; its warnings; the digests it was found or kept under."""
    store, handler = disk.Store(str(folder), files), _Counting()
    log = logging.getLogger("tilelang")
    log.addHandler(handler)
    log.propagate, before = False, log.propagate
    digests: list[str] = []
    find = store.find
    store.find = lambda digest: (digests.append(digest), find(digest))[1]  # type: ignore[method-assign]
    try:
        with (
            mock.patch.object(cache, "_cache", cache._Cache(True)),
            mock.patch.object(cache, "_store", return_value=store),
            mock.patch.object(cache, "toolchain", return_value=TOOLCHAIN),
            mock.patch.object(nvrtc, "compile_text", return_value=PROGRAM),
        ):
            return cache.compile_cached(HEADER, {}, "sm_90a", (), "f", str), handler.messages, digests
    finally:
        log.removeHandler(handler)
        log.propagate = before


@contextmanager
def scene(prepare: Callable[[Path, Path], None], base: Path) -> Iterator[tuple[Path, Path]]:
    """A fresh folder as `prepare` makes it, and the place of the program's entry in it."""
    if not WHOLE.exists():
        made, _, (digest,) = attempt(base / "whole", disk.Files)
        assert made == PROGRAM
        shutil.move(base / "whole" / (digest + disk.SUFFIX), WHOLE)
        globals()["DIGEST"] = digest
    folder = base / "cache"
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, folder / (DIGEST + disk.SUFFIX))
    with mock.patch.object(disk, "LIMIT_BYTES", 1500):
        yield folder, folder / (DIGEST + disk.SUFFIX)


def faults(numbers: list[int], base: Path) -> tuple[Counter[str], list[str]]:
    """Every scene with every error number at every single call of the operating system, and at all calls of one name.

    Returns how many runs hit each call, and what went wrong."""
    hits: Counter[str] = Counter()
    wrong: list[str] = []
    for prepare in SCENES:
        with scene(prepare, base) as (folder, _):
            healthy = Faulty()
            attempt(folder, healthy)
        cases: list[tuple[str, Callable[[int, str], bool]]] = [
            (f"{name} (call {at})", lambda index, _, at=at: index == at) for at, name in enumerate(healthy.calls)
        ]
        cases += [(f"{name} (always)", lambda _, called, name=name: called == name) for name in sorted(set(healthy.calls))]
        for words, failing in cases:
            for number in numbers:
                hits[words.split()[0]] += 1
                fault = _one(prepare, base, failing, number)
                if fault:
                    wrong.append(f"{prepare.__name__[1:]}, {words}, {errno.errorcode[number]}: {fault}")
    WHOLE.unlink(missing_ok=True)
    return hits, wrong


def _one(prepare: Callable[[Path, Path], None], base: Path, failing: Callable[[int, str], bool], number: int) -> str:
    """What went wrong in one run; empty if nothing did."""
    with scene(prepare, base) as (folder, _):
        try:
            made, warnings, _ = attempt(folder, Faulty(failing, number))
        except Exception as error:  # noqa: BLE001 - any exception is a finding
            return f"raised {error!r}"
        if made != PROGRAM:
            return "another program came back"
        expected = 2 if prepare is _damaged or prepare is _occupied else 1  # one for the damage, one for the disk
        if len(warnings) > expected:
            return f"{len(warnings)} warnings"
        made, _, _ = attempt(folder, disk.Files)
        return "" if made == PROGRAM else "another program is left on disk"


# ---- start

# Run as a file: the source of a kernel is read from where it stands.
START = '''
import tilelang
import tilelang.language as T

def matmul(M, N, K, block_M=128, block_N=128, block_K=64, num_stages=3, threads=128):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return kernel

cubin = tilelang.compile(matmul(1024, 1024, 1024), out_idx=[2], target={"kind": "cuda", "arch": "sm_90a"}).cubin
import sys
print((len(cubin), "cuda.bindings.nvrtc" in sys.modules, "cuda.pathfinder" in sys.modules))
'''


def start(folder: Path, environment: Mapping[str, str] | None = None) -> tuple[float, float, tuple[int, bool, bool]]:
    """Seconds from the start of an interpreter until it has the cubin and has ended; seconds of processor time among these; the
    cubin's bytes, and whether NVRTC's bindings and cuda.pathfinder were imported."""
    path = folder / "start.py"
    path.write_text(START)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TILELANG_CACHE_DIR": str(folder / "cache"), **(environment or {})}
    began, used = time.perf_counter(), _processor_seconds()
    done = subprocess.run([sys.executable, str(path)], env=variables, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, _processor_seconds() - used, ast.literal_eval(done.stdout)


def _processor_seconds() -> float:
    """Of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def starts(repeat: int, base: Path) -> dict[str, Any]:
    """Medians over `repeat` interpreters with no cache and with a warm one."""
    start(base)  # compiles byte code and fills the cache
    cold = [start(base, {"TILELANG_DISABLE_CACHE": "1"}) for _ in range(repeat)]
    warm = [start(base) for _ in range(repeat)]
    assert len({size for _, _, (size, _, _) in cold + warm}) == 1
    return {
        "warm_s": round(statistics.median(seconds for seconds, _, _ in warm), 3),
        "warm_samples_s": [round(seconds, 3) for seconds, _, _ in warm],
        "warm_processor_s": round(statistics.median(processor for _, processor, _ in warm), 3),
        "uncached_s": round(statistics.median(seconds for seconds, _, _ in cold), 3),
        "warm_imports_nvrtc_bindings": any(bindings for _, _, (_, bindings, _) in warm),
        "warm_imports_pathfinder": any(pathfinder for _, _, (_, _, pathfinder) in warm),
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of stress")
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=9, help="interpreters per figure of start")
    parser.add_argument("--output", type=Path, help="folder for the JSON file (benchmarks/results)")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        started = starts(words.repeat, base)
        print(f"start: {started}", flush=True)
        hits, wrong = faults(sorted(errno.errorcode), base)
        print(f"faults: {hits.total()} runs, {len(wrong)} wrong", *wrong[:20], sep="\n  ", flush=True)
        counts = stress(words.processes, words.keys, words.seconds, str(base / "stress"))
        print(f"stress: {counts}", flush=True)
    result = {
        "start": started,
        "faults": {"runs": hits.total(), "error_numbers": len(errno.errorcode), "runs_by_call": dict(hits), "wrong": wrong},
        "stress": {"processes": words.processes, "keys": words.keys, "seconds": words.seconds, **counts},
    }
    print(f"written to {machine.write_result('cache_stress', result, words.output)}")
    if wrong or counts["corrupt"] or counts["corrupt_left"]:
        raise SystemExit("the cache failed")


if __name__ == "__main__":
    main()
