"""Files that the system watches for us: while it says nothing no byte is compared, and no change goes unseen."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tilejit.jit.pto import untouched
from tilejit.jit.pto.text import Content

OLD, NEW = b"module {old}", b"module {new}"
AGAIN = 256
"""Comparisons after which the system is asked again at the latest."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file behind a link to a directory, and a link to it."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "real.pto").write_bytes(OLD)
    (tmp_path / "a" / "b" / "other.pto").write_bytes(NEW)
    (tmp_path / "a" / "b" / "k.pto").symlink_to("../b/./real.pto")
    (tmp_path / "way").symlink_to(tmp_path / "a")
    return tmp_path / "way" / "b" / "k.pto"


def watched(path: Path, content: Content | None = None) -> Content:
    """What the file held, under watch."""
    content = content or Content(str(path), OLD)
    for _ in range(AGAIN):
        assert content.holds()
        if content.stands():
            return content
    pytest.skip("a file system that does not tell of all changes")


def in_child(action: Callable[[], object]) -> None:
    """Run something in a child process, which must find it true."""
    child = os.fork()
    if child == 0:
        passed = False
        try:
            passed = bool(action())
        finally:
            os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0


def rewrite(path: Path) -> None:
    times = path.stat()
    path.write_bytes(NEW)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def write_mapped(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = NEW


def replace(path: Path) -> None:
    os.replace(path.parent / "other.pto", path.parent / "real.pto")


def move_directory(path: Path) -> None:
    folder = path.parent.resolve()
    folder.rename(folder.with_name("c"))
    folder.mkdir()
    (folder / "k.pto").write_bytes(NEW)


def exchange(path: Path) -> None:
    at, swap, folder, libc = -100, 2, path.parent, ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        pytest.skip("a C library without it")
    assert libc.renameat2(at, bytes(folder / "other.pto"), at, bytes(folder / "real.pto"), swap) == 0


def change_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("other.pto")


def change_link_on_the_way(path: Path) -> None:
    folder, other = path.parents[1], path.parents[2] / "z" / "b"
    other.mkdir(parents=True)
    (other / "k.pto").write_bytes(NEW)
    (other.parent / "link").symlink_to(other.parent)
    os.replace(other.parent / "link", folder)


def put_into_the_way(path: Path) -> None:
    folder = path.parents[1].resolve()
    folder.rename(folder.with_name("elsewhere"))


CHANGES = (
    rewrite, write_mapped, replace, move_directory, exchange, change_link, change_link_on_the_way, put_into_the_way,
    lambda path: os.truncate(path, 3), Path.unlink, lambda path: path.resolve().unlink(),
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_seen(path: Path, change: Callable[[Path], None]) -> None:
    content = watched(path)
    change(path)
    assert not content.stands()
    assert not content.holds()


def test_no_byte_is_compared_while_nothing_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = watched(path)
    monkeypatch.setattr(os, "open", lambda *args: pytest.fail("opened"))
    assert content.holds()


@pytest.mark.parametrize("touch", [lambda path: path.read_bytes(), lambda path: path.write_bytes(OLD), lambda path: path.chmod(0o600)])
def test_what_is_told_of_is_looked_at_and_watched_again(path: Path, touch: Callable[[Path], object]) -> None:
    content = watched(path)
    touch(path)
    assert not content.stands()
    rewrite(path)
    assert not content.holds()
    path.write_bytes(OLD)
    watched(path, content)
    rewrite(path)
    assert not content.holds()


def test_a_file_that_somebody_may_write_is_compared_at_each_call(path: Path) -> None:
    """Nothing is told of writes through a mapping."""
    content = watched(path)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        file.close()
        for _ in range(2 * AGAIN):
            assert content.holds()
        assert not content.stands()
        mapped[:] = NEW
        assert not content.holds()


def test_two_kernels_of_one_file_share_the_watch(path: Path) -> None:
    one, two = watched(path), watched(path)
    assert one.stands()
    rewrite(path)
    assert not one.holds() and not two.holds()


def test_more_files_than_descriptors_are_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untouched, "_MOST_FILES", 0)
    content = Content(str(path), OLD)
    assert all(content.holds() for _ in range(8)) and not content.stands()


def test_a_content_that_nobody_needs_frees_its_descriptor(path: Path) -> None:
    content = watched(path)
    file = content.stands.__self__.file  # type: ignore[attr-defined]
    os.fstat(file)
    del content
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_a_file_that_is_not_watched_does_not_stand_in_the_place_of_one_that_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(path: str) -> None:
        raise OSError(f"{path} may change unseen")

    notices = watched(path).stands.__self__._notices  # type: ignore[attr-defined]
    gc.collect()
    monkeypatch.setattr(notices, "_watched", hidden)
    other = path.with_name("other.pto")
    content = Content(str(other), NEW)
    assert all(content.holds() and not content.stands() for _ in range(8))
    other.write_bytes(OLD)
    assert not content.holds()


def test_closed_descriptors_are_noticed(path: Path) -> None:
    content = watched(path)

    def closed() -> bool:
        os.closerange(3, 1 << 16)
        held = content.holds()
        for _ in range(5000):  # other files under their numbers
            os.open(os.devnull, os.O_RDONLY)
        held = held and content.holds()
        rewrite(path)
        return held and not content.holds()

    in_child(closed)
    assert not content.holds()


@pytest.mark.parametrize("who", ["parent", "child"])
def test_what_one_process_was_told_the_other_one_knows_too(path: Path, who: str) -> None:
    content = watched(path)
    ready, done = os.pipe()

    def child() -> bool:
        if who == "child":
            rewrite(path)
            return not content.holds()
        os.read(ready, 1)
        return not content.holds()

    def parent() -> None:
        if who == "parent":
            rewrite(path)
            assert not content.stands.__self__.look()  # type: ignore[attr-defined]  # takes what was told
            os.write(done, b"x")

    number = os.fork()
    if number == 0:
        os._exit(0 if child() else 1)
    parent()
    assert os.waitpid(number, 0)[1] == 0
    assert not content.holds()
    os.close(ready)
    os.close(done)


def test_a_thread_does_not_take_what_another_one_has_to_see(path: Path) -> None:
    """Each thread changes its own file, while the others take what is told."""
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = path.with_name(f"{number}.pto")
        for turn in range(60):
            mine.write_bytes(OLD)
            content = Content(str(mine), OLD)
            if not all(content.holds() for _ in range(3)):
                wrong.append(turn)
            mine.write_bytes(NEW)
            if content.holds():
                wrong.append(turn)

    watched(path)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser mounts")
def test_a_file_mounted_over_it_is_seen(path: Path) -> None:
    libc = ctypes.CDLL(None)
    bind, private_all, apart = 4096, (1 << 18) | (1 << 14), 0x00020000
    watched(path)

    def mounted() -> bool:
        if libc.unshare(apart) != 0 or libc.mount(None, b"/", None, private_all, None) != 0:
            return True  # not even the superuser, here
        content = watched(path)
        ok = libc.mount(bytes(path.with_name("other.pto")), bytes(path.resolve()), None, bind, None) == 0
        return not ok or (not content.stands() and not content.holds())

    in_child(mounted)
