"""Whether files that were read are untouched since, told by the system: one call for all of them, and none of their bytes (Linux).

Silence is a proof because of three things. Every directory entry on the way to a file is watched, links included, and so is the table of mounts: that another
file has the name now is told. The file is watched for being opened, and nobody had it open for writing when that began (only then does the system grant a
lease for reading, which is given back at once): nobody can write, not even through a mapping, without being told of before. And what was told is not taken from
the queue before those whom it concerns know. Where one of these is not to be had (file systems that change behind the kernel's back, files of other users, no
descriptors left) the bytes have to be compared.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import stat
import struct
import sys
import threading
import weakref
from contextlib import ExitStack, suppress

_LOCAL = ("ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs")
"""File systems that only this kernel changes, and whose files count as open while they are mapped."""
_MODIFY, _ATTRIB, _OPEN, _DELETE_SELF, _MOVE_SELF, _IGNORED, _NO_FOLLOW = 0x2, 0x4, 0x20, 0x400, 0x800, 0x8000, 0x2000000
_DIRECTORY = _DELETE_SELF | _MOVE_SELF | _NO_FOLLOW
"""A directory loses its name by being moved; it is removed only after what is in it."""
_LINK = _DIRECTORY | _ATTRIB
"""Links and files are told when they lose a name."""
_FILE = _LINK | _MODIFY | _OPEN
_EVENT = struct.Struct("iIII")
_MOST_LINKS = 40
_MOST_FILES = 64
"""Files that one process watches: each takes a descriptor."""
_MOST_STARTS = 16
"""How often a process begins anew, after a fork or after somebody closed its descriptors."""
_WIPE_ON_FORK = 18


class Known:
    """A file that is watched, with what it held."""

    __slots__ = ("__weakref__", "_identity", "_notices", "_page", "_poll", "data", "file", "path", "place")

    def __init__(self, path: str, data: bytes, file: int, place: int, notices: _Notices) -> None:
        self.path, self.data, self.file, self.place = path, data, file, place
        self._identity = _identity(os.fstat(file))
        self._notices, self._page, self._poll = notices, notices.page, notices.queue.poll

    def stands(self) -> bool:
        """Whether nothing was told of it since it was looked at."""
        try:
            return not self._poll(0) and self._page[self.place] == 1  # in this order: another thread may be taking what was told
        except OSError:
            return False  # somebody closed the descriptor

    def look(self) -> bool:
        """Whether the path leads to what the file held, and nobody writes now; from here on it stands until something is told."""
        return self._notices.look(self)

    def is_open(self) -> bool:
        """Whether the descriptor is ours still."""
        with suppress(OSError):
            return _identity(os.fstat(self.file)) == self._identity
        return False

    def __del__(self) -> None:
        if hasattr(self, "_identity") and self.is_open():
            os.close(self.file)


def known(path: str, data: bytes) -> Known | None:
    """The file under watch; None where the system does not tell of it."""
    global _current, _starts
    if sys.platform != "linux" or not os.path.isabs(path):
        return None
    with suppress(OSError):
        if _current is None or not _current.works():
            if _starts >= _MOST_STARTS:
                return None
            _starts += 1
            _kept.append(_current := _Notices())
        return _current.known(path, data)
    return None


class _Notices:
    """What the system tells this process about files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._known: weakref.WeakValueDictionary[str, Known] = weakref.WeakValueDictionary()
        self._all: weakref.WeakSet[Known] = weakref.WeakSet()
        self._concerned: dict[int, weakref.WeakSet[Known]] = {}
        with ExitStack() as opened:
            # The one that is asked at each call has the lowest number: who closes all numbers from one on closes it too, and that is seen.
            self.queue = _apart_epoll()
            self._files = _apart(self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)))
            opened.callback(os.close, self._files)
            self._mounts = _apart_epoll()
            self._table = _apart(os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC))
            opened.callback(os.close, self._table)
            # The table can always be read; each change says so once more, and the queue around it keeps that until it is asked.
            self._mounts.register(self._table, select.EPOLLIN | select.EPOLLET)
            self._mounts.poll(0)
            self.queue.register(self._mounts, select.EPOLLIN)
            self.queue.register(self._files, select.EPOLLIN)
            self.page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.page.madvise(_WIPE_ON_FORK)  # a child process must not take from the queue what its parent waits for
            self.page[0] = 1
            self._types = _file_systems()
            opened.pop_all()

    def works(self) -> bool:
        """Whether it belongs to this process and has its descriptors."""
        try:
            self.queue.poll(0)
        except OSError:
            return False
        return self.page[0] != 0

    def known(self, path: str, data: bytes) -> Known | None:
        found = self._known.get(path)
        if found is not None and found.data == data and found.is_open():
            return found
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._opened(path, data)
        finally:
            self._lock.release()

    def _opened(self, path: str, data: bytes) -> Known | None:
        place = min({*range(1, _MOST_FILES + 1)} - {known.place for known in self._all}, default=None)
        if place is None:
            return None
        file = _apart(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        self.page[place] = 0  # of a file before, which may have stood to the end
        found = self._known[path] = Known(path, data, file, place, self)
        self._all.add(found)
        return found

    def look(self, known: Known) -> bool:
        if not self._lock.acquire(blocking=False):
            return False  # another thread is here, or this one was interrupted
        try:
            self._let_go()
            self._take()
            way, end = self._watched(known.path)
            # The second time every entry was watched already when it led on.
            if (way, end) != self._watched(known.path) or end != _identity(os.fstat(known.file)):
                return False
            for watch in way:
                self._concerned.setdefault(watch, weakref.WeakSet()).add(known)
            if not (_nobody_writes(known.file) and os.pread(known.file, len(known.data) + 1, 0) == known.data) or self.queue.poll(0):
                return False
            self.page[known.place] = 1
            return True
        except OSError:
            return False
        finally:
            self._lock.release()

    def _take(self) -> None:
        """Take what was told. Nothing counts as untouched meanwhile, and afterwards only what it did not concern."""
        told = dict(self.queue.poll(0))
        if not told:
            return
        before = self.page[:]
        self.page[1:] = bytes(len(before) - 1)
        touched: set[int] = set()
        mounted = self._mounts.fileno() in told
        if mounted:
            self._mounts.poll(0)
            self._types = _file_systems()
        while events := self._events():
            for watch, mask, _, _ in _EVENT.iter_unpack(events):  # no names: they tell of what is watched, not of what is in it
                touched.update(known.place for known in list(self._concerned.get(watch, ())))
                mounted = mounted or watch < 0  # or there was more than the queue holds
                if mask & _IGNORED:
                    self._concerned.pop(watch, None)
        if not mounted:
            for place in range(1, len(before)):
                if before[place] and place not in touched:
                    self.page[place] = 1

    def _events(self) -> bytes:
        try:
            return os.read(self._files, 4096 * _EVENT.size)
        except BlockingIOError:
            return b""

    def _let_go(self) -> None:
        """No longer watch for files that nobody asks about."""
        for watch in [watch for watch, concerned in self._concerned.items() if not concerned]:
            self._libc.inotify_rm_watch(self._files, watch)
            del self._concerned[watch]

    def _watched(self, path: str) -> tuple[list[int], tuple[int, int]]:
        """Watch every directory entry on the way; their numbers, and which file is at the end."""
        at, left, links = "/", path.split("/")[::-1], 0
        watches: list[int] = []
        facts = os.lstat(at)
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                at = os.path.dirname(at)
                continue
            entry = os.path.join(at, name)
            facts = os.lstat(entry)
            if self._types.get(f"{os.major(facts.st_dev)}:{os.minor(facts.st_dev)}") not in _LOCAL:
                raise OSError(f"{entry} may change unseen")
            mask = _DIRECTORY if stat.S_ISDIR(facts.st_mode) else _LINK if stat.S_ISLNK(facts.st_mode) else _FILE
            watches.append(self._checked(self._libc.inotify_add_watch(self._files, os.fsencode(entry), mask)))
            if mask != _LINK:
                at = entry
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{path} leads nowhere")
            target = os.readlink(entry)
            at = "/" if target.startswith("/") else at
            left += target.split("/")[::-1]
        return watches, _identity(facts)

    @staticmethod
    def _checked(number: int) -> int:
        if number < 0:
            raise OSError(ctypes.get_errno(), "the system does not watch it")
        return number


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _nobody_writes(file: int) -> bool:
    """Whether nobody has the file open for writing, nor mapped: it is lent for reading then."""
    import fcntl

    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # to whom it is lent is told when somebody wants to write; nobody heeds that in this moment
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True


def _apart(file: int) -> int:
    """The same under a high number, which nobody else gets by opening a file after somebody closed ours."""
    import fcntl
    import resource

    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096) // 2)
    finally:
        os.close(file)


def _apart_epoll() -> select.epoll:
    made = select.epoll()
    return select.epoll.fromfd(_apart(os.dup(made.fileno())))


def _file_systems() -> dict[str, str]:
    """By the number of the device, as text."""
    with open("/proc/self/mountinfo", "rb") as table:
        rows = (os.fsdecode(row).split() for row in table)
        return {row[2]: row[row.index("-") + 1] for row in rows}


_current: _Notices | None = None
_starts = 0
_kept: list[_Notices] = []
"""Never let go: the numbers of their descriptors may be those of somebody else by now."""
