"""The file operations of the disk cache, in one object so that tests can make each of them fail."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Links are not followed, children do not inherit, bytes stay bytes."""
_READING = os.O_RDONLY | _PLAIN | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What sweeping needs to know about a file."""

    name: str
    size: int
    stamp: float


class Files:
    """Operations on files owned by this user; links are never followed, nothing is created world-readable."""

    def make_directory(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def check_directory(self, path: str) -> None:
        """Refuse a directory that somebody else could write to, or that a link of somebody else leads to: PermissionError says why."""
        found: os.stat_result | None = None
        for part in _upwards(os.path.abspath(path)) if hasattr(os, "getuid") else ():
            step = os.lstat(part)
            is_link = stat.S_ISLNK(step.st_mode)
            if is_link and step.st_uid not in (os.getuid(), 0):
                raise PermissionError(errno.EPERM, "is a symbolic link of another user", part)
            found = found or (os.stat(path) if is_link else step)  # of the path itself, which comes first
        found = found or os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", path)
        if not hasattr(os, "getuid"):
            return  # no owners and no mode bits: the user's profile directory is private by its access list
        if found.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "belongs to another user", path)
        if found.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "can be written by others", path)

    def read(self, path: str, limit: int) -> tuple[bytes, float]:
        """The whole of a regular file, and when it was last written or touched."""
        descriptor = os.open(path, _READING)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            if found.st_size > limit:
                raise OSError(errno.EFBIG, "too large", path)
            data = os.read(descriptor, found.st_size + 1)
            if len(data) != found.st_size:  # cut short, or the file grows: what it is now, whole
                parts = [data]
                while part := os.read(descriptor, 1 << 22):
                    parts.append(part)
                data = b"".join(parts)
            return data, found.st_mtime
        finally:
            os.close(descriptor)

    def write_new(self, path: str, data: bytes) -> None:
        """Create `path` with `data`; it must not exist."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            # No fsync: what a crash of the machine tears is found by its checksums and made again.
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def touch(self, path: str) -> None:
        os.utime(path, follow_symlinks=os.utime not in os.supports_follow_symlinks)

    def scan(self, path: str) -> Iterator[FileInfo]:
        """Regular files directly in `path`."""
        with os.scandir(path) as rows:
            for row in rows:
                try:
                    if row.is_file(follow_symlinks=False):
                        found = row.stat(follow_symlinks=False)
                        yield FileInfo(row.name, found.st_size, found.st_mtime)
                except FileNotFoundError:
                    continue  # removed by another process meanwhile

    def subdirectories(self, path: str) -> list[str]:
        with os.scandir(path) as rows:
            return [row.name for row in rows if row.is_dir(follow_symlinks=False)]

    def try_lock(self, path: str) -> int | None:
        """A descriptor that holds the lock file `path`, or None while another process does; where there are no file locks, everybody compiles."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, 0o600)
        try:
            if fcntl is None:
                return descriptor
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Sweeping may have removed the file between open and flock: then this lock guards nothing.
            if os.fstat(descriptor).st_ino == os.stat(path, follow_symlinks=False).st_ino:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {_machine()}".encode(), 0)
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def progress(self, path: str) -> tuple[bytes, ...] | None:
        """Something that is different after the process that holds a lock has computed; None where that cannot be told.

        Locks of processes that died are free at once, whatever this says.
        """
        try:
            pid, _, machine = self.read(path, 1 << 10)[0].decode("ascii").partition(" ")
            if machine != _machine() or not machine or int(pid) == os.getpid():  # whoever waits computes a little, too
                return None
            with open(f"/proc/{int(pid)}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            return None
        return fields[_USER_TIME], fields[_SYSTEM_TIME], fields[_START_TIME]

    def unlock(self, descriptor: int) -> None:
        try:
            # Closing is not enough: a process forked meanwhile has the descriptor too, and with it the lock.
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


_USER_TIME, _SYSTEM_TIME, _START_TIME = 11, 12, 19
"""Of /proc/PID/stat, after the name of the program."""


@functools.cache
def _machine() -> str:
    """Where the number of a process means the same process: this start of this machine, and the processes that see each other; empty: not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except (OSError, ValueError):
        return ""


def _upwards(path: str) -> Iterator[str]:
    """The path and the directories above it, but for the root."""
    while (above := os.path.dirname(path)) != path:
        yield path
        path = above
