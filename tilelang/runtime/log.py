"""The package's logger.  Messages go to standard error unless the application has set up logging itself."""
from __future__ import annotations

import logging
from functools import cache

from tilelang.errors import ArgumentError

NAME = "tilelang"


@cache
def logger() -> logging.Logger:
    """The logger "tilelang".  At its first use it gets a handler if there is none on the way to the root, and the level INFO if
    none is set."""
    log = logging.getLogger(NAME)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    return log


def set_log_level(level: int | str) -> None:
    """Messages below `level` are dropped: a number of `logging` or its name in any case, e.g. "warning".

    Raises ArgumentError (TL531) for a level that does not exist.
    """
    value = level.upper() if isinstance(level, str) else level
    known = logging.getLevelNamesMapping()
    if isinstance(value, bool) or not (isinstance(value, int) or value in known):
        raise ArgumentError(f"log level {level!r} does not exist", code="TL531", hint=f"levels: {', '.join(known)}")
    logger().setLevel(value)
