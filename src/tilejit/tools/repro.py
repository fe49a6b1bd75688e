"""`tilejit repro FILE:KERNEL`: a zip that shows a problem elsewhere: source, arguments, the trace of the compile, versions, and a script that runs it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from tilejit.config import PREFIX
from tilejit.runtime import machine
from tilejit.runtime.config import RunConfig
from tilejit.tools import kernels

_LIBRARIES = ("tilejit", "numpy", "ml_dtypes", "xdsl", "llvmlite", "triton", "torch")
_SCRIPT = """# Compiles the kernel again and writes trace.html anew. Needs tilejit; `about.json` says which versions there were.
import os
import sys

from tilejit.__main__ import main

os.environ.update({settings!r})
sys.argv = ["tilejit", "trace", {place!r}, *{arguments!r}, *{options!r}, "--out", "trace.html"]
sys.exit(main())
"""


def configure(parser: argparse.ArgumentParser) -> None:
    kernels.configure(parser)
    parser.add_argument("--out", metavar="ZIP", help="where to write; default: repro-KERNEL.zip")


def run(options: argparse.Namespace) -> int:
    """Write the zip, also and above all of a compile that fails."""
    file = Path(options.kernel.rpartition(":")[0])
    kernel = kernels.kernel_at(options.kernel)
    out = Path(options.out or f"repro-{kernel.__name__}.zip")
    page = out.with_suffix(".html")
    config = RunConfig(platform=options.platform)
    record = kernel.trace(path=page, config=config, **kernels.sample_arguments(kernel, options.arguments)).record
    settings = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIX)}
    chosen = ["--platform", options.platform] if options.platform else []
    place = f"{file.name}:{kernel.__name__}"
    about = {"kernel": kernel.__name__, "arguments": options.arguments, "settings": settings, "error": record.error, "failed": record.failed, **_versions()}
    texts = {
        file.name: file.read_text(encoding="utf-8"),
        "reproduce.py": _SCRIPT.format(settings=settings, place=place, arguments=options.arguments, options=chosen),
        "about.json": json.dumps(about, indent=1) + "\n",
        "trace.html": page.read_text(encoding="utf-8"),
        **{f"stages/{name.replace(' ', '-')}": text for name, text in record.texts.items()},
    }
    page.unlink()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    print(json.dumps({"zip": str(out), "files": list(texts), **about}) if options.json else out)
    return 0


def _versions() -> dict[str, object]:
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"python": sys.version, "system": f"{platform.system()} {machine.architecture()}", "versions": found}
