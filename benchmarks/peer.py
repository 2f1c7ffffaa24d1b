"""Runs a script of this folder with another implementation of the package `tilelang`, in a process of its own.

    python benchmarks/peer.py SITE SCRIPT [ARGUMENTS ...]

SITE is a folder that holds the other package (as `pip install --target` makes it).  Compare the ratios to the common peer
(cuBLAS, cuDNN) that both runs measure in their own rounds, not the times.
"""
from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    site, script = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    sys.path.insert(0, str(site))
    import tilelang

    if site not in Path(tilelang.__file__).resolve().parents:
        raise SystemExit(f"tilelang came from {tilelang.__file__}, not from {site}")
    print("measuring", tilelang.__file__, tilelang.__version__)
    sys.argv = sys.argv[2:]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
