"""The pages of the docs site that are made, not written: one per operator, the error catalogue, the examples, and the pages of the repository's root.

mkdocs loads this file as a hook (`make docs`); tests/docs/test_site.py makes the same pages.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402

from tilejit import errors, ops  # noqa: E402
from tilejit.ops.help import example, example_dtype, help_text  # noqa: E402
from tilejit.ops.spec import OpSpec, Spelling  # noqa: E402
from tilejit.runtime import RunConfig  # noqa: E402
from tilejit.tools.ops import entry  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
MADE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository's root, and their places on the site."""
SHOWN_MESSAGES = 3
"""Messages per class in the catalogue of errors."""
def pages() -> dict[str, str]:
    """Every page that is made, by its place on the site."""
    operators = {row.name: row for row in ops.table().values() if row.spellings}
    return {
        **{place: at_root((ROOT / name).read_text(encoding="utf-8")) for name, place in MADE.items()},
        "examples.md": examples_page(),
        "error-catalogue.md": error_catalogue(),
        "ops/index.md": operator_index(operators.values()),
        **{f"ops/{name}.md": operator_page(row) for name, row in operators.items()},
    }


def at_root(text: str) -> str:
    """A page of the repository's root as a page of the site: links to pages lead there, others to files are words."""
    text = re.sub(r"\]\(docs/(?!spec/)([^)]*)\)", r"](\1)", text)
    text = re.sub(r"\[([^\]]*)\]\(examples[^)]*\)", r"[\1](examples.md)", text)
    for name, place in MADE.items():
        text = text.replace(f"]({name})", f"]({place})")
    return re.sub(r"\[([^\]]*)\]\((?:docs/spec/[^)]*|bench/[^)]*|LICENSE)\)", r"\1", text)


# operators --------------------------------------------------------------------------------------------------------------


def operator_index(rows: Any) -> str:
    """All operators by family, one line each."""
    families: dict[str, list[OpSpec]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    lines = ["# Operators", "", "Every operator of the language, from the table that the compiler reads; each page has an example that runs."]
    for family, members in sorted(families.items()):
        lines += ["", f"## {family}", "", "| operator | meaning |", "|---|---|"]
        lines += [f"| [`{spelled(row.spellings[0])}`]({row.name}.md) | {cell(first_sentence(row.doc))} |" for row in members]
    return "\n".join(lines) + "\n"


def operator_page(row: OpSpec) -> str:
    """What an operator takes and gives, where it runs, and an example with its result."""
    found = entry(row)
    lines = [f"# {row.title}", "", row.doc, "", "## Signatures", "", "```text"]
    lines += list(dict.fromkeys(spelled(spelling) + spelling.signature_text for spelling in row.spellings))
    lines += ["```", ""]
    facts = [line for line in help_text(row.spellings[0], row).split("\n\n")[-1].splitlines() if line.startswith(("takes: ", "shapes: "))]
    lines += [f"- {fact}" for fact in facts]
    lines += ["", "| parameter | what it takes |", "|---|---|"]
    lines += [f"| `{param.name}` | {param.kind.value}{'' if param.required else f', default `{param.default!r}`'} |" for param in row.params]
    lines += ["", "## Data types and targets", "", f"Elements: {', '.join(found.dtypes) or 'none'}.", "", "| target | runs |", "|---|---|"]
    lines += [f"| {target} | {'yes' if reason is None else f'no: {cell(reason)}'} |" for target, reason in found.support.items()]
    return "\n".join([*lines, "", *example_of(row)]) + "\n"


def spelled(spelling: Spelling) -> str:
    """A public name as users write it."""
    space = spelling.namespace
    return f"pl.{spelling.name}" if space == "pl" else f"{space}.{spelling.name}" if space.startswith("pl") else f"pl.{space}.{spelling.name}"


def first_sentence(doc: str) -> str:
    return doc.split("\n\n")[0].replace("\n", " ")


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


def example_of(row: OpSpec) -> Iterator[str]:
    """A kernel with the operator and what it gives, run now; or one of the kernels of the repository that the tests run."""
    call = next((text for spelling in row.spellings if (text := example(spelling, row)) is not None), None)
    if call is not None:
        text = f"import tilejit.language as pl\n\n@pl.jit\ndef kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n    out[:] = {call}\n"
        x = np.random.default_rng(0).uniform(1, 5, (4, 8)).astype(example_dtype(row).numpy)
        names: dict[str, Any] = {}
        exec(text, names)
        result = names["kernel"](x, config=RunConfig(platform="reference"))
        shown = np.array2string(result, precision=4, threshold=40, edgeitems=2)
        given = f"For a random `x` of shape [4, 8] ({x.dtype}) it gives {result.dtype} {list(result.shape)}:"
        yield from ("## Example", "", "```python", *text.splitlines(), "```", "", given, "", "```text", *shown.splitlines(), "```")
        return
    name, text = next((found for spelling in row.spellings if (found := used_in(spelled(spelling))) is not None), (None, ""))
    if name is not None:
        yield from ("## Example", "", f"A kernel of the tests, `{name}`:", "", "```python", *text.rstrip().splitlines(), "```")


def used_in(name: str) -> tuple[str, str] | None:
    """The shortest function of the repository that calls an operator, and where it stands."""
    candidates = [(where, text) for where, text in functions_of_the_tests() if f"{name}(" in text]
    return min(candidates, key=lambda found: len(found[1]), default=None)


@cache
def functions_of_the_tests() -> list[tuple[str, str]]:
    """Kernels of the suite and of the examples, which the tests run."""
    import ast

    from tilejit.types.python_text import statements

    found: list[tuple[str, str]] = []
    folders = ("tests/suite", "tests/suite/newcomers", "examples", "examples/distributed", "examples/llama", "tests/ranks", "tests/language")
    for path in (path for folder in folders for path in sorted((ROOT / folder).glob("*.py"))):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(statements(text)):
            if isinstance(node, ast.FunctionDef) and any("pl." in ast.unparse(one) for one in node.decorator_list):
                start = min(one.lineno for one in (*node.decorator_list, node))
                lines = text.splitlines()[start - 1 : node.end_lineno]
                indent = len(lines[0]) - len(lines[0].lstrip())
                body = [line[indent:] for line in lines if not line[indent:].startswith("@CASES")]
                found.append((f"{path.relative_to(ROOT)}:{node.name}", "\n".join(body)))
    return found


# errors and examples ----------------------------------------------------------------------------------------------------


def error_catalogue() -> str:
    """Every class of errors.py with messages that users get: those that the tests compare."""
    lines = ["# Error catalogue", "", "Every error that is raised for a mistake, with messages as they are shown. [Errors](errors.md) says how to read them."]
    messages = golden_messages()
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, errors.TilejitError)]
    for kind in sorted(classes, key=lambda found: found.__name__):
        if kind.__name__ in ("TilejitError", "RankDeadlockError"):
            continue
        bases = [base.__name__ for base in kind.__mro__[1:] if base not in (errors.TilejitError, Exception, BaseException, object)]
        lines += ["", f"## {kind.__name__}", "", (inspect.getdoc(kind) or "") + (f" Also a {', '.join(f'`{base}`' for base in bases)}." if bases else "")]
        for text in messages.get(kind.__name__, [])[:SHOWN_MESSAGES]:
            lines += ["", "```text", *text.splitlines(), "```"]
    return "\n".join(lines) + "\n"


def golden_messages() -> Mapping[str, list[str]]:
    """The messages that the tests compare, by class."""
    found: dict[str, list[str]] = {}
    for path in sorted(GOLDEN.glob("*.txt")):
        text = path.read_text(encoding="utf-8").strip()
        found.setdefault(text.partition(":")[0], []).append(text)
    return found


def examples_page() -> str:
    """The example files, whole."""
    lines = ["# Examples", "", "Each file runs by itself and checks itself against NumPy; `tilejit demo` runs them all."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines += ["", f"## {path.stem.replace('_', ' ')}", "", f"`{path.relative_to(ROOT)}`", "", "```python", *text.rstrip().splitlines(), "```"]
    lines += ["", "## Larger ones", "", "`examples/llama` is a whole decoder-only transformer, `examples/training` trains a model of torch"]
    lines += ["through a kernel with its own backward, `examples/distributed` has kernels for several ranks, `examples/notebook.ipynb` is a notebook."]
    return "\n".join(lines) + "\n"


# mkdocs -----------------------------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    structure: ModuleType = importlib.import_module("mkdocs.structure.files")
    for place, text in pages().items():
        files.append(structure.File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of written pages to the repository lead to the pages that were made of it; those to the specification are words."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)+examples[^)]*\)", f"]({up}examples.md)", markdown)
    for name, place in MADE.items():
        markdown = markdown.replace(f"](../{up}{name})", f"]({up}{place})")
    return re.sub(r"\[([^\]]*)\]\((?:\.\./)*spec/[^)]*\)", r"\1", markdown)
