"""`python -m tilelang`: the command where it is not on the path."""
from tilelang.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
