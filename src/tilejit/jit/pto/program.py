"""A checked PTO module with its entry: what a source-backed kernel launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilejit.backends.pto.interpret.launch import launch, parameter_types, refuse_unrunnable
from tilejit.compiler import compile_program
from tilejit.config import under
from tilejit.errors import AbiError, ResourceError, UnsupportedFeatureError
from tilejit.frontend.pto.handles import NotRaisable
from tilejit.frontend.pto.raiser import raise_to_program
from tilejit.frontend.pto.text import parse_pto
from tilejit.jit.pto.code import launched
from tilejit.jit.pto.types import Parameter
from tilejit.lazy import lazy
from tilejit.runtime.artifact.compiled import CompiledProgram
from tilejit.runtime.config import RunConfig
from tilejit.runtime.targets import DEFAULT, code_settings
from tilejit.tile_ir.pto.module import FuncOp, PtoFile, written_arch
from tilejit.tile_ir.pto.types import canonical
from tilejit.tile_ir.pto.verify import verify


@dataclass(eq=False)
class PtoProgram:
    """One entry of a verified file."""

    file: PtoFile
    entry: FuncOp
    names: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=lambda: dict(code_settings(DEFAULT)))
    """Under which it becomes machine code, whenever that is."""

    def text(self) -> str:
        return self.file.print()

    @lazy
    def native(self) -> CompiledProgram | None:
        """The kernel as machine code; None: the compiler refuses it, `interpreted_because` says why. What cannot run at all is an error, as is any other."""
        refuse_unrunnable(self.file, self.entry)
        try:
            with under(self.settings):
                return compile_program(raise_to_program(self.file, self.entry, self.names), RunConfig(platform=DEFAULT))
        except (NotRaisable, UnsupportedFeatureError, ResourceError) as error:
            self.interpreted_because = str(error) if isinstance(error, NotRaisable) else error.message
            return None

    interpreted_because: str | None = None

    def launch(self, arguments: Sequence[object], grid: int) -> None:
        """Run it; what cannot run is refused before anything is written."""
        if not launched(self.native, self.names, parameter_types(self.entry), arguments, grid):
            self.interpret(arguments, grid)

    def interpret(self, arguments: Sequence[object], grid: int) -> None:
        """Run it op by op."""
        refuse_unrunnable(self.file, self.entry)
        launch(self.file, self.entry, self.names, arguments, grid)


def load(text: str, filename: str, entry: str, parameters: Sequence[Parameter], target: str | None) -> PtoProgram:
    """Parse, select the entry, compare it with the signature, then verify everything."""
    file = parse_pto(text, filename, None if written_arch(text) is not None else target)
    function = _selected(file, filename, entry)
    _check_abi(function, filename, entry, parameters)
    verify(file)
    return PtoProgram(file, function, tuple(parameter.name for parameter in parameters))


def _selected(file: PtoFile, filename: str, entry: str) -> FuncOp:
    found = [function for function in file.definitions() if function.sym_name.data == entry]
    if not found:
        names = ", ".join(f"@{function.sym_name.data}" for function in file.definitions())
        raise AbiError(f"could not bind entry {entry} in {filename}: missing non-declaration func.func", help=f"the file defines {names}" if names else None)
    if len(found) > 1:
        raise AbiError(f"could not bind entry {entry} in {filename}: {len(found)} definitions of that name", span=file.span(found[1]))
    return found[0]


def _check_abi(function: FuncOp, filename: str, entry: str, parameters: Sequence[Parameter]) -> None:
    """Results, then the count, then the first parameter that differs."""
    results = [canonical(type) for type in function.function_type.outputs.data]
    got = [canonical(type) for type in function.function_type.inputs.data]
    expected = [parameter.type.text for parameter in parameters if parameter.type is not None]
    prefix = f"entry {entry} in {filename}"
    if results:
        raise AbiError(f"{prefix} must return no values, got ({', '.join(results)})")
    if len(got) != len(expected):
        raise AbiError(f"{prefix} takes other parameters: expected ({', '.join(expected)}), got ({', '.join(got)})")
    for index, (wanted, found) in enumerate(zip(expected, got)):
        if wanted != found:
            raise AbiError(f"{prefix}: parameter {index} differs; expected {wanted}, got {found}")
