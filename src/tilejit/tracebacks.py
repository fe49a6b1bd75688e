"""Which frames of an error its caller sees."""

from __future__ import annotations

import os
import types

from tilejit import config
from tilejit.errors import OptionError, TilejitError


def shortened(error: TilejitError) -> TilejitError:
    """An error on its way to the caller, without the frames of tilejit that it came through, unless the settings ask for them.

    What the user wrote keeps its frames: the lines of a kernel that runs eagerly, the function that a cause was raised in.
    """
    if not _are_frames_wanted():
        error.__traceback__ = _of_the_user(error.__traceback__)
        error.__suppress_context__ = True
        cause = error.__cause__
        if cause is not None and cause.__traceback__ is not None:
            cause.__traceback__ = _of_the_user(cause.__traceback__)
    return error


def _are_frames_wanted() -> bool:
    try:
        return config.DEBUG.value >= 2
    except OptionError:
        return False  # the error on its way says so, or is about something else


def _of_the_user(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the first frame on that is neither in this package nor in the library of Python."""
    ours, pythons = (os.path.dirname(__file__) + os.sep, "<tilejit"), (os.path.dirname(os.__file__) + os.sep, "<frozen")
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(ours) and (not file.startswith(pythons) or "site-packages" in file):
            break
        trace = trace.tb_next
    return trace
