"""The disk cache: hits, misses, and everything that can go wrong with a directory, each of which must end as a miss."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import pickle
import random
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import HANG, older
from tilejit.errors import TilejitWarning
from tilejit.runtime.store.directory import Store, default_root
from tilejit.runtime.store.entry import CacheEntry, DamagedCacheEntry, decode, encode
from tilejit.runtime.store.files import Files

KEY = hashlib.sha256(b"kernel").hexdigest()


def entry_of(seed: int, key: str = KEY) -> CacheEntry:
    rng = random.Random(seed)
    sections = {"code": rng.randbytes(rng.randrange(1, 3000)), "meta": rng.randbytes(rng.randrange(0, 300))}
    return CacheEntry(key, {"kernel": "mod.add", "x": {"dtype": "FP32", "shape": [seed, None]}}, sections)


def quiet(action: Callable[[], object]) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilejitWarning)
        return action()


# the file format ----------------------------------------------------------------------------------------------------------


def test_an_entry_survives_encoding_with_its_fields_and_sections() -> None:
    entry = entry_of(3)
    assert decode(encode(entry), KEY) == entry


def test_every_flipped_byte_is_noticed() -> None:
    data = encode(CacheEntry(KEY, {"a": 1}, {"code": bytes(range(200))}))
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x40
        with pytest.raises(DamagedCacheEntry):
            decode(bytes(broken), KEY)


def test_every_truncation_and_any_appended_byte_is_noticed() -> None:
    data = encode(CacheEntry(KEY, {"a": 1}, {"code": bytes(range(200)), "meta": b"x" * 10}))
    for length in range(len(data)):
        with pytest.raises(DamagedCacheEntry):
            decode(data[:length], KEY)
    with pytest.raises(DamagedCacheEntry):
        decode(data + b"\0", KEY)


def test_an_entry_made_for_another_key_is_refused() -> None:
    with pytest.raises(DamagedCacheEntry, match="another key"):
        decode(encode(entry_of(1)), hashlib.sha256(b"other").hexdigest())


# the directory ------------------------------------------------------------------------------------------------------------


def test_what_was_put_is_found_by_another_store_on_the_same_directory(tmp_path: Path) -> None:
    root = str(tmp_path / "cache")
    assert Store(root).put(entry_of(5))
    assert Store(root).get(KEY) == entry_of(5)
    assert stat.S_IMODE(os.stat(root).st_mode) == 0o700


def test_get_or_build_builds_once_and_then_reads(tmp_path: Path) -> None:
    calls: list[int] = []

    def build() -> CacheEntry:
        calls.append(1)
        return entry_of(7)

    store = Store(str(tmp_path / "cache"))
    assert store.get_or_build(KEY, build) == entry_of(7)
    assert Store(store.root).get_or_build(KEY, build) == entry_of(7)
    assert len(calls) == 1


def test_a_failing_build_leaves_no_lock_and_no_entry_behind(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "cache"), lock_timeout=0.2)

    def fail() -> CacheEntry:
        raise RuntimeError("does not compile")

    with pytest.raises(RuntimeError, match="does not compile"):
        store.get_or_build(KEY, fail)
    assert store.get_or_build(KEY, lambda: entry_of(1)) == entry_of(1)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "pickle", "directory", "symlink", "fifo"])
def test_a_damaged_entry_is_set_aside_and_rewritten_in_the_same_call(tmp_path: Path, damage: str) -> None:
    store = Store(str(tmp_path / "cache"))
    store.put(entry_of(2))
    path = tmp_path / "cache" / KEY[:2] / f"{KEY}.tj"
    outside = tmp_path / "outside"
    outside.write_bytes(encode(entry_of(9)))
    good = path.read_bytes()
    path.unlink()
    if damage == "truncate":
        path.write_bytes(good[: len(good) // 2])
    elif damage == "flip":
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pickle":
        path.write_bytes(pickle.dumps({"evil": os.getpid}))
    elif damage == "directory":
        path.mkdir()
    elif damage == "symlink":
        path.symlink_to(outside)
    elif damage == "fifo":
        os.mkfifo(path)
    with pytest.warns(TilejitWarning):
        assert Store(store.root).get_or_build(KEY, lambda: entry_of(2)) == entry_of(2)
    assert Store(store.root).get(KEY) == entry_of(2)
    assert outside.read_bytes() == encode(entry_of(9)), "nothing outside the cache is touched"


def test_a_warning_is_given_once_per_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = Store(str(tmp_path / "file" / "cache"))
    with pytest.warns(TilejitWarning, match="stay in memory") as caught:
        for _ in range(3):
            assert store.get_or_build(KEY, lambda: entry_of(1)) == entry_of(1)
    assert len(caught) == 1


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o777)
    root.chmod(0o777)
    with pytest.warns(TilejitWarning, match="written by others"):
        assert not Store(str(root)).put(entry_of(1))
    assert list(root.iterdir()) == []


def test_read_only_layers_are_searched_and_never_written(tmp_path: Path) -> None:
    layer = Store(str(tmp_path / "layer"))
    layer.put(entry_of(4))
    before = sorted(path.name for path in (tmp_path / "layer").rglob("*"))
    store = Store(str(tmp_path / "own"), layers=[str(tmp_path / "layer")])
    assert store.get(KEY) == entry_of(4)
    assert sorted(path.name for path in (tmp_path / "layer").rglob("*")) == before


def test_sweeping_keeps_the_recently_used_and_removes_leftovers_of_dead_writers(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "swept").touch()  # a moment ago: no write sweeps on its own
    store = Store(str(tmp_path / "cache"), max_entries=3)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(6)]
    for age, key in enumerate(keys):
        store.put(entry_of(age, key))
        older(tmp_path / "cache" / key[:2] / f"{key}.tj", 1000 * (6 - age))
    orphan = tmp_path / "cache" / keys[0][:2] / f".tmp-{2**22 - 1}-00ff"
    orphan.write_bytes(b"half")
    older(orphan, 7200)
    assert store.sweep() == 4
    assert sorted(key for key, _ in store.entries()) == sorted(keys[3:])
    assert not orphan.exists()


def test_the_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"TILEJIT_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"})  # as somebody may who wants another environment for a while
    assert default_root() == "/x"
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": "/y"})
    assert default_root() == os.path.join("/y", "tilejit")
    monkeypatch.setattr(os, "environ", {"TILEJIT_CACHE_DIR": "here"})
    monkeypatch.chdir(tmp_path)
    assert default_root() == str(tmp_path / "here")  # another directory in each place, each of which is looked at


# injected faults ----------------------------------------------------------------------------------------------------------


class FaultyFiles(Files):
    """Fails, or does half of its work, at random operations."""

    def __init__(self, rng: random.Random, rate: float) -> None:
        self.rng, self.rate, self.injected = rng, rate, 0

    def _fault(self) -> bool:
        hit = self.rng.random() < self.rate
        self.injected += hit
        return hit

    def _raise(self) -> None:
        code = self.rng.choice([errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.ENOENT, errno.EMFILE])
        raise OSError(code, os.strerror(code))

    def make_directory(self, path: str) -> None:
        if self._fault():
            self._raise()
        super().make_directory(path)

    def read(self, path: str, limit: int) -> tuple[bytes, float]:
        if self._fault():
            self._raise()
        data, stamp = super().read(path, limit)
        if self._fault() and data:
            cut = self.rng.randrange(len(data))
            data = data[:cut] if self.rng.random() < 0.5 else data[:cut] + bytes([data[cut] ^ (1 << self.rng.randrange(8))]) + data[cut + 1 :]
        return data, stamp

    def write_new(self, path: str, data: bytes) -> None:
        if self._fault():
            with open(path, "wb") as file:
                file.write(data[: self.rng.randrange(len(data))])
            if self.rng.random() < 0.7:
                self._raise()
            return  # a torn write that went unnoticed
        with open(path, "wb") as file:  # without fsync: the test is about logic, not the disk
            file.write(data)

    def rename(self, source: str, target: str) -> None:
        if self._fault():
            self._raise()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if self._fault():
            self._raise()
        super().remove(path)

    def try_lock(self, path: str) -> int | None:
        if self._fault():
            self._raise()
        return super().try_lock(path)

    def touch(self, path: str) -> None:
        if self._fault():
            self._raise()
        super().touch(path)


def inject(root: Path, faults: int, seed: int) -> None:
    """Use the cache while its file operations fail, until `faults` were injected: every answer must be right."""
    rng = random.Random(seed)
    files = FaultyFiles(rng, 0.15)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(12)]
    while files.injected < faults:
        store = Store(str(root), files=files, max_entries=9, lock_timeout=0.05)
        for _ in range(40):
            index = rng.randrange(len(keys))
            assert store.get_or_build(keys[index], lambda index=index: entry_of(index, keys[index])) == entry_of(index, keys[index])
            if rng.random() < 0.05:
                store.sweep()
    healthy = Store(str(root))
    for index, key in enumerate(keys):
        assert healthy.get_or_build(key, lambda index=index, key=key: entry_of(index, key)) == entry_of(index, key)
        assert Store(str(root)).get(key) == entry_of(index, key), "the cache is usable afterwards"


@pytest.mark.parametrize("seed", range(5))
def test_injected_faults_never_give_an_exception_or_a_wrong_entry(tmp_path: Path, seed: int) -> None:
    faults = int(os.environ.get("TILEJIT_TEST_FAULTS", "5000")) // 5
    quiet(lambda: inject(tmp_path / "cache", faults, seed))


OPERATIONS = ("make_directory", "check_directory", "read", "write_new", "rename", "remove", "touch", "scan", "subdirectories", "try_lock", "unlock")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_operation_that_fails_with_any_error_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    def everything(store: Store) -> None:
        damaged = tmp_path / "cache" / keys[2][:2] / f"{keys[2]}.tj"
        if damaged.exists():
            damaged.write_bytes(b"damaged")
        for index, key in enumerate(keys):
            assert store.get_or_build(key, lambda index=index, key=key: entry_of(index, key)) == entry_of(index, key)
        store.sweep()
        store.remove(keys[0])
        store.reject(keys[1], "a test")
        store.clear()

    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(4)]
    for code in ERRORS:
        files = Files()

        def fail(*args: object, code: int = code) -> None:
            if operation == "unlock":
                Files().unlock(*args)  # type: ignore[arg-type] # says that it failed, and did it
            raise OSError(code, os.strerror(code))

        Store(str(tmp_path / "cache"), lock_timeout=0.01).get_or_build(keys[3], lambda: entry_of(3, keys[3]))
        with monkeypatch.context() as patched:
            patched.setattr(files, operation, fail)
            quiet(lambda files=files: everything(Store(str(tmp_path / "cache"), files=files, max_entries=2, lock_timeout=0.01)))
    quiet(lambda: everything(Store(str(tmp_path / "cache"), lock_timeout=0.01)))


WRITER = """
import hashlib, random, sys
from tilejit.runtime.store.entry import CacheEntry
from tilejit.runtime.store.directory import Store
root, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
print("ready", flush=True)
while True:
    index = rng.randrange(8)
    key = hashlib.sha256(bytes([index])).hexdigest()
    store = Store(root)
    store.remove(key) if rng.random() < 0.3 else None
    store.put(CacheEntry(key, {"i": index}, {"code": bytes([index]) * 200_000}))
"""


def test_a_writer_killed_at_any_moment_leaves_a_usable_cache(tmp_path: Path) -> None:
    root, rng = str(tmp_path / "cache"), random.Random(1)
    for round_ in range(12):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, root, str(round_)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(rng.random() * 0.03)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        for index in range(8):
            key = hashlib.sha256(bytes([index])).hexdigest()
            found = Store(root).get(key)
            assert found is None or found.sections["code"] == bytes([index]) * 200_000


def _stampede(root: str, counter: str, barrier: object) -> None:
    def build() -> CacheEntry:
        with open(counter, "a") as file:
            file.write("x")
        time.sleep(0.05)
        return entry_of(11)

    barrier.wait()  # type: ignore[attr-defined]
    assert Store(root).get_or_build(KEY, build) == entry_of(11)


def test_sixty_four_processes_on_one_key_compile_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(64)
    counter = tmp_path / "compiles"
    workers = [context.Process(target=_stampede, args=(str(tmp_path / "cache"), str(counter), barrier)) for _ in range(64)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG)
        assert worker.exitcode == 0
    assert counter.read_text() == "x"


def test_the_death_of_a_lock_holder_releases_the_others(tmp_path: Path) -> None:
    root = str(tmp_path / "cache")
    build = "def build():\n    print('held', flush=True)\n    signal.pause()\n"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"from tilejit.runtime.store.directory import Store\nimport signal\n{build}Store({root!r}).get_or_build({KEY!r}, build)"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    store = Store(root, lock_timeout=HANG)

    def kill_when_awaited() -> None:
        while not store.counters.waits:
            time.sleep(0.01)
        holder.kill()

    def build_with_the_lock() -> CacheEntry:
        assert Files().try_lock(os.path.join(root, "locks", f"{KEY}.lock")) is None, "who waited long enough builds without the lock"
        return entry_of(6)

    killer = threading.Thread(target=kill_when_awaited)
    killer.start()
    assert store.get_or_build(KEY, build_with_the_lock) == entry_of(6)
    killer.join()
    holder.wait()
    holder.stdout.close()


def test_waiting_for_a_lock_is_bounded_and_ends_in_a_build_of_ones_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "cache"), lock_timeout=0.2)
    assert store.put(entry_of(1, hashlib.sha256(b"other").hexdigest()))
    (tmp_path / "cache" / "locks").mkdir(mode=0o700)
    held = store.files.try_lock(str(tmp_path / "cache" / "locks" / f"{KEY}.lock"))
    assert held is not None
    assert store.get_or_build(KEY, lambda: entry_of(4)) == entry_of(4)
    assert store.counters.waits > 0
    store.files.unlock(held)


def test_whoever_waits_does_so_while_the_holder_computes(tmp_path: Path) -> None:
    """However long that takes: no clock decides."""
    answers = [(b"1",), (b"2",), (b"2", b"3"), (b"4",), (b"4",)]

    class Slow(Files):
        def progress(self, path: str) -> tuple[bytes, ...] | None:
            return answers.pop(0)

    store = Store(str(tmp_path / "cache"), files=Slow(), lock_timeout=0.0)
    assert store.put(entry_of(1, hashlib.sha256(b"other").hexdigest()))
    (tmp_path / "cache" / "locks").mkdir(mode=0o700)
    held = Files().try_lock(str(tmp_path / "cache" / "locks" / f"{KEY}.lock"))
    assert held is not None
    assert store.get_or_build(KEY, lambda: entry_of(4)) == entry_of(4)
    assert not answers, "it gave up as soon as nothing was done"
    Files().unlock(held)


HOLDER = """
import sys
from tilejit.runtime.store.files import Files
held = Files().try_lock(sys.argv[1])
for line in sys.stdin:
    for _ in range(int(line)):
        hash("x" * 1000)
    print("done", flush=True)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_what_a_holder_does_is_seen_from_outside(tmp_path: Path) -> None:
    path = str(tmp_path / "key.lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None

        def work(turns: int) -> tuple[bytes, ...] | None:
            print(turns, file=holder.stdin, flush=True)
            assert holder.stdout is not None
            assert holder.stdout.readline() == "done\n"
            return Files().progress(path)

        before = work(1)
        assert before is not None
        while work(100_000) == before:
            pass
        holder.stdin.close()
    assert Files().progress(path) is None, "there is no such process any more"
    own = Files().try_lock(path)
    assert own is not None and Files().progress(path) is None, "of itself a process cannot tell"
    Files().unlock(own)


def test_a_lock_that_was_held_during_a_fork_is_free_when_its_holder_is_done(tmp_path: Path) -> None:
    path = str(tmp_path / "key.lock")
    held = Files().try_lock(path)
    assert held is not None
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()  # inherits the descriptor
    try:
        Files().unlock(held)
        again = Files().try_lock(path)
        assert again is not None
        Files().unlock(again)
    finally:
        child.kill()
        child.join()


def test_a_directory_behind_somebody_elses_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "cache").mkdir(parents=True, mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    original = os.lstat

    def theirs(path: str) -> os.stat_result:
        found = original(path)
        return os.stat_result((*found[:4], 12345, *found[5:])) if path == str(tmp_path / "link") else found

    assert Store(str(tmp_path / "link" / "cache")).put(entry_of(1)), "one's own link is fine"
    monkeypatch.setattr(os, "lstat", theirs)
    with pytest.warns(TilejitWarning, match="symbolic link of another user"):
        assert not Store(str(tmp_path / "link" / "cache")).put(entry_of(1))


def test_a_process_that_writes_one_entry_sweeps_if_nobody_did_for_an_hour(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(6)]

    def written(count: int) -> int:
        store = Store(str(root), max_entries=2)
        for key in keys[:count]:
            store.put(entry_of(1, key))
        for thread in threading.enumerate():
            if thread.name == "tilejit-cache-sweep":
                thread.join()
        return len(list(store.entries()))

    written(1)
    assert written(6) == 6, "swept a moment ago"
    os.utime(root / "swept", (1, 1))
    assert written(1) == 2
