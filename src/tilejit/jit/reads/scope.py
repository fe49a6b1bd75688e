"""What one function of a kernel sees of Python, through questions."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tilejit.errors import TilejitError
from tilejit.frontend import fold
from tilejit.jit.definition import Definition
from tilejit.jit.reads.handles import Handle, is_handle
from tilejit.jit.reads.plain import is_open, is_plain, same
from tilejit.jit.reads.questions import MISSING, is_language
from tilejit.jit.reads.trace import Trace
from tilejit.jit.reads.words import is_fixed_type
from tilejit.kinds import is_a, true_module
from tilejit.types.annotations import DynVar
from tilejit.types.groups import GROUPS

if TYPE_CHECKING:
    from tilejit.jit.specialize.signature import JitParam


class OldAnnotations(Exception):
    """The annotations in quotes of a function stand for something else now: it has to be read again."""

    def __init__(self, owner: object) -> None:
        super().__init__(owner)
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Reads:
    """What one function of a kernel sees of Python, through questions."""

    trace: Trace
    definition: Definition

    def name(self, name: str) -> object:
        """What a name stands for; MISSING if it is not bound."""
        place = self.trace.definitions[self.definition], name
        if place in self.trace.names:
            return self.trace.names[place]
        found = self.trace.names[place] = self.trace.ask("name", self._owner, name)
        if is_language(found) and name not in self.trace.modules:
            self.trace.modules[name] = found
            self._used(found, sorted({_below(steps) for steps in self.definition.facts.chains.get(name, ()) if steps and steps[0][0] == "attr"}))
        return found

    def around(self, name: str) -> object:
        """What a name of the place of the definition stands for in an annotation in quotes."""
        found = self.trace.ask("around", self._owner, name)
        if is_language(found):
            self._used(cast("types.ModuleType", found), sorted({path[1] for path in self.definition.quoted.chains if path[0] == name and len(path) > 1}))
        return found

    def _used(self, module: types.ModuleType, names: list[str]) -> None:
        """Take note of whether these names of the language are still its own."""
        if names and vars(module).get("assigned") is not None:
            others, known = self.trace.ask("assigned", module, *names), self.trace.assigned
            for name in names:
                first = id(module), name.partition(".")[0]
                known[id(module), name] = name in others
                known[first] = known.get(first, False) or name in others

    @property
    def _owner(self) -> object:
        return Handle(self.trace.definitions[self.definition])

    def attribute(self, owner: object, name: str, path: str) -> object:
        """`owner.name`."""
        if is_language(owner):
            module = cast("types.ModuleType", owner)
            if not self._is_assigned(module, name):
                found = fold.attribute(module, name, path)
                if name in GROUPS:
                    self.trace.groups[id(found)] = module, name
                if name in GROUPS or is_plain(found):
                    return found  # else an object like any other: `pl.jit`, `pl.__dict__`
        elif id(owner) in self.trace.groups and not self.trace.gave(owner):
            module, group = self.trace.groups[id(owner)]
            if not self._is_assigned(module, f"{group}.{name}") and is_plain(found := fold.attribute(owner, name, path)):
                return found
            owner = self.trace.ask("attr", module, group)
        elif not is_handle(owner) and not self.trace.gave(owner) and not is_open(owner, name):
            found = fold.attribute(owner, name, path)
            if not is_plain(owner) or is_plain(found) or (true_module(found).startswith("tilejit.") and not is_a(found, types.MethodType)):
                return found  # else an object like any other: a method, a dtype of NumPy
        return self.trace.ask("attr", owner, name, path=path)

    def is_language_of(self, owner: object) -> bool:
        """Whether a value is a module of ours or a group of its operators: what the text of a kernel says of one means its own, whatever was assigned to it."""
        return is_language(owner) or id(owner) in self.trace.groups

    def _is_assigned(self, module: types.ModuleType, name: str) -> bool:
        if (id(module), name) not in self.trace.assigned:
            self._used(module, [name])
        return self.trace.assigned.get((id(module), name), True)

    def chain(self, path: Sequence[str]) -> object:
        """What a chain of names stands for, if it does; else MISSING."""
        found = self.name(path[0])
        if len(path) == 1:
            return found
        if not is_language(found):
            return self.trace.ask("chain", self._owner, *path)
        for name in path[1:]:
            try:
                found = self.attribute(found, name, ".".join(path))
            except TilejitError:
                return MISSING
        return found

    def is_language(self, root: str) -> bool:
        """Whether a name stands for our own package."""
        return is_language(self.name(root))

    def annotations(self) -> None:
        """Ask what annotations in quotes stand for; OldAnnotations: that is something else than when the parameters were read."""
        definition = self.definition
        _, quoted = definition.digest, definition.quoted
        decided, same_as_read = quoted.decided, True
        for path, seen in list(quoted.chains.items()):  # other threads find more of them
            is_around = path[0] in definition.around
            if is_language(self.around(path[0]) if is_around else self.name(path[0])) and len(path) <= 2:
                continue  # one question tells of all names of the language
            found = self.trace.ask("around", self._owner, *path) if is_around else self.chain(path)
            decided = decided and (found is MISSING or is_plain(found) or is_a(found, DynVar))
            same_as_read = same_as_read and (not decided or found is seen or (is_plain(found) and is_plain(seen) and same(found, seen)))
        if not decided:
            if self.trace.policy != "ignore" and quoted.names_other_classes():  # no question tells, nor is it a drift: what a program holds is the same
                raise OldAnnotations(self.trace.raw(self._owner))
            same_as_read = self.trace.ask("annotations", self._owner) == quoted.described()
        if not same_as_read and (self.trace.policy != "ignore" or not self.trace.table):
            raise OldAnnotations(self.trace.raw(self._owner))

    def symbol(self, value: DynVar) -> None:
        """Ask which symbol of the annotations a value is, where it could be one: the passes tell them apart by identity, and a key must too."""
        if self.trace.gave(value) and any(known.name == value.name for known in self.definition.symbols):
            self.trace.ask("symbol", value, self._owner)

    def is_kind(self, value: object, param: JitParam) -> bool:
        """Whether a value is of one of the classes that a `pl.constexpr[…]` parameter names; only Python's own classes say for ever what is a number."""
        if is_handle(value) or not all(map(is_fixed_type, param.classes)):
            return self.trace.ask("kind", value, self._owner, param.name) is True
        return isinstance(value, param.classes)

    def classes(self) -> None:
        """Ask whether numbers and texts that the call gave are of the classes that their parameters name: the next call may be told otherwise."""
        for param in self.definition.params if self.trace.arguments else ():
            if param.only is not None and is_plain(value := self.trace.arguments.get(param.name, MISSING)):
                self.is_kind(value, param)

    def default(self, param: JitParam) -> object:
        """The default of a parameter."""
        return param.default if is_plain(param.default) else self.trace.ask("default", self._owner, param.name)


def _below(steps: Sequence[Sequence[object]]) -> str:
    """The name of the language that a chain starts with: `exp`, `tile.full`."""
    names = [str(key) for kind, key in steps[:2] if kind == "attr"]
    return ".".join(names) if names[0] in GROUPS else names[0]

