"""Damaged PTO files: `python -m tests.pto.fuzz --files 20000`. Each is accepted, or refused with an error of ours, and none hangs."""

from __future__ import annotations

import argparse
import faulthandler
import random
import re
from collections.abc import Iterator

from tests.patience import HANG
from tests.pto.harness import HERE, KERNELS, MISTAKES, load
from tilejit.backends.pto.interpret.launch import refuse_unrunnable
from tilejit.errors import PtoSyntaxError, PtoVerifyError, UnsupportedFeatureError
from tilejit.frontend.pto.handles import NotRaisable
from tilejit.frontend.pto.raiser import raise_to_program
from tilejit.frontend.pto.text import parse_pto
from tilejit.tile_ir.pto.module import PtoFile
from tilejit.tile_ir.pto.verify import problems
from tilejit.tile_ir.verify import verify

_TOKEN = re.compile(r"[\w.%@#!]+|\s+|.", re.S)


def flipped(random: random.Random, text: str) -> bytes:
    """A few bytes changed."""
    raw = bytearray(text.encode())
    for _ in range(random.randint(1, 8)):
        raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
    return bytes(raw)


def truncated(random: random.Random, text: str) -> bytes:
    start = random.randrange(len(text) // 2) if random.random() < 0.3 else 0
    return text[start : random.randrange(start, len(text))].encode()


def shuffled(random: random.Random, text: str) -> bytes:
    """A few words exchanged, removed or doubled."""
    words = _TOKEN.findall(text)
    for _ in range(random.randint(1, 6)):
        i, j = random.randrange(len(words)), random.randrange(len(words))
        kind = random.randrange(3)
        if kind == 0:
            words[i], words[j] = words[j], words[i]
        elif kind == 1:
            words[i] = ""
        else:
            words[i] += " " + words[j]
    return "".join(words).encode()


def numbered(random: random.Random, text: str) -> bytes:
    """Numbers become others, among them enormous ones."""
    chosen = ["0", "-1", "1", "7", "16", "4096", "1073741824", "9" * 30, "1e400", "?"]
    return re.sub(r"\b\d+\b", lambda match: random.choice(chosen) if random.random() < 0.05 else match.group(), text).encode()


DAMAGES = (flipped, truncated, shuffled, numbered)


def files(count: int, seed: int) -> Iterator[bytes]:
    """Damaged copies of the kernels, a quarter of them in the generic form, and of the mistakes."""
    source = random.Random(seed)
    texts = [(path.stem, path.read_text()) for folder in (HERE / "kernels", MISTAKES) for path in sorted(folder.glob("*.pto"))]
    for _ in range(count):
        name, text = source.choice(texts)
        if source.random() < 0.25 and name in KERNELS:
            text = load(name).print(generic=True)
        yield source.choice(DAMAGES)(source, text)


def check(raw: bytes) -> bool:
    """Whether the file is accepted; everything but an error of ours is a failure, and so is never coming back."""
    faulthandler.dump_traceback_later(HANG, exit=True)
    try:
        file = parse_pto(raw, "fuzz.pto")
        accepted = True
        for error in problems(file):
            str(error)
            accepted = False
            break
        if accepted:
            assert parse_pto(file.print(), arch=file.arch).module.is_structurally_equivalent(file.module), "it does not print back"
            raise_entries(file)
    except (PtoSyntaxError, PtoVerifyError) as error:
        accepted = not str(error)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return accepted


def raise_entries(file: PtoFile) -> None:
    """What is accepted becomes tile IR that its verifier accepts, or is left to the interpreter for a reason."""
    for entry in file.entries():
        try:
            refuse_unrunnable(file, entry)
            verify(raise_to_program(file, entry, [f"a{i}" for i in range(len(entry.body.block.args))]))
        except (NotRaisable, UnsupportedFeatureError):
            pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    accepted = 0
    for number, raw in enumerate(files(options.files, options.seed)):
        try:
            accepted += check(raw)
        except BaseException:
            (HERE / "fuzz_failure.pto").write_bytes(raw)
            print(f"file {number} fails; it is in tests/pto/fuzz_failure.pto")
            raise
    print(f"{options.files} damaged files: {accepted} accepted, the others refused with errors of ours")


if __name__ == "__main__":
    main()
