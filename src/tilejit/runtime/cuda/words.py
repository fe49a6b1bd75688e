"""The words that kernels report failures into: host memory that the GPU writes, so that looking costs one load."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tilejit.errors import TilejitError
from tilejit.runtime.call.failures import Failure, raise_failure
from tilejit.runtime.cuda.devices import Device

CLEAR = (1 << 63) - 1
"""No failure: the smallest report wins."""
_ROW = (1 << 20) - 1
_VALUES = 4
LATER = "kernels on the GPU run on their own: this one failed before the call or synchronisation that reports it"


_ONE = ctypes.c_int64 * 1
"""Making the type takes longer than making one."""


class FailureWords:
    """Word 0 is the smallest report, block << 40 | place << 20 | row; row r has its integers in the words 1 + 4 * r …"""

    def __init__(self, device: Device, failures: Sequence[Failure], reported: bool) -> None:
        """`reported`: a kernel is given their address; memory that the GPU can write takes the driver a while."""
        self._device, self._failures = device, tuple(failures)
        count = 1 + _VALUES * len(failures)
        if reported:
            self.address = device.host_memory(8 * count)
            self.words = (ctypes.c_int64 * count).from_address(self.address)
        else:  # nobody will ever write it
            self.words = _ONE()
            self.address = ctypes.addressof(self.words)
        self.words[0] = CLEAR

    def pending(self) -> bool:
        """Whether a kernel reported something, as far as it got yet."""
        return self.words[0] != CLEAR

    def check(self) -> None:
        """Raise what a kernel reported. The reports are complete only once the kernels are: so they are waited for."""
        if self.pending():
            self._device.synchronise()
            self.raise_report()

    def raise_report(self) -> None:
        """Raise the report, and be ready for the next."""
        report, words = self.words[0], self.words
        words[0] = CLEAR
        row = report & _ROW
        values = words[1 + _VALUES * row : 1 + _VALUES * (row + 1)]
        try:
            raise_failure(self._failures[row], values, self._failures)
        except TilejitError as error:
            error.note = f"{error.note}; {LATER}" if error.note else LATER
            raise
