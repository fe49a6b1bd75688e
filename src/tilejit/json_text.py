"""Writers of JSON that are made once: `json.JSONEncoder.encode` makes one for every text, which takes five times as long as writing it."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any, NoReturn


def writer(item_separator: str = ", ", key_separator: str = ": ", allow_nan: bool = True) -> Callable[[object], str]:
    """A function that writes trees of JSON's own types, without looking for cycles; where Python lacks its native writer, the usual one does it."""
    make: Any = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(check_circular=False, separators=(item_separator, key_separator), allow_nan=allow_nan).encode
    native = make(None, _refuse, encoder.encode_basestring_ascii, None, key_separator, item_separator, False, False, allow_nan)
    return lambda value: "".join(native(value, 0))


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
