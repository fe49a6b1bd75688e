"""What Python answered while a kernel was looked up or compiled: every question once, numbered, written down with its answer."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from typing import Any, cast

from tilejit.errors import ArtifactError, StaleCaptureError, UnsupportedFeatureError
from tilejit.jit.definition import Definition
from tilejit.jit.reads.answers import Answers, Asked, Known, Table, Unanswered
from tilejit.jit.reads.drift import changed_answer
from tilejit.jit.reads.handles import Handle, holds_handle, is_handle, rebuilt
from tilejit.jit.reads.handles import number_of as number_of_handle
from tilejit.jit.reads.members import Member, Members, member_of
from tilejit.jit.reads.natures import ITERATOR, Nature, nature
from tilejit.jit.reads.owners import maybe_definition, owner_first, renew
from tilejit.jit.reads.plain import another, decode, dumps, encode, interned, is_deep, is_part, is_plain, steady
from tilejit.jit.reads.questions import MAKING, MISSING, SPOKEN, is_language, is_word, nested
from tilejit.jit.reads.spelling import shown, spelled_as, told_as
from tilejit.jit.reads.stored import has_form, named_by
from tilejit.jit.reads.writing import UNNAMED, digest, flat, ours, question_of
from tilejit.kinds import class_name, defining_module, is_a, true_module
from tilejit.types.annotations import DynVar, Untracked


class Trace:
    """The questions of one lookup or one compilation, in order. Number 0 is the kernel itself."""

    def __init__(self, entry: Definition, answers: Answers, table: Table | None = None, policy: str = "raise") -> None:
        self.entry = entry
        self.answers = answers
        self.table = {} if table is None else table
        self.policy = policy
        self.log: list[Asked] = []
        self.objects: list[object] = [entry]
        """The raw answers, by number."""
        self.paths: list[str] = [""]
        """How a message spells them."""
        self.changed: list[StaleCaptureError] = []
        """What is another than the kernel stands on; the policy said to go on."""
        self.arguments: Mapping[str, object] = {}
        """What the call gave for parameters that are read while compiling."""
        self._given: set[int] = set()
        """Numbers of what follows from these."""
        self._untracked: list[object] = []
        self._values: dict[str, object] = {}
        self._turns: dict[str, tuple[int, int]] = {}
        """Questions that made an iterator: which of them this pass has, and the number of the one before."""
        self._begun: set[str] = set()
        """Those that may make one, asked in this pass."""
        self._at: dict[str, int] = {}
        """Which object is at each place."""
        self._plain: dict[str, int] = {}
        """Plain answers, as they are written: the numbers of the questions that gave them first."""
        self._members = Members()
        self._told_apart: dict[int, int] = {}
        """Of plain answers that equal an earlier one: the objects that the passes hold, which are their own, with the numbers of their questions."""
        self._first: dict[int, int] = {id(entry): 0}
        self._identities: list[str] = ["kernel"]
        self.definitions: dict[Definition, int] = {entry: 0}
        """The kernel and its helpers, with the numbers of the questions that gave them."""
        self.names: dict[tuple[int, str], object] = {}
        """What names stand for, by the number of the function that has them."""
        self.modules: dict[str, types.ModuleType] = {}
        """Names under which the language was read."""
        self.seconds: dict[str, float] = {}
        """How long each question took, by how a message spells it."""
        self.text = ""
        """Digest of the specialised text, once there is one."""
        self.assigned: dict[tuple[int, str], bool] = {}
        """Of each name of the language that is used: whether somebody assigned it."""
        self.groups: dict[int, tuple[types.ModuleType, str]] = {}
        """By the address of a group of operators that no question gave: the module of the language that has it, and its name there."""

    def fork(self) -> Trace:
        """A trace that goes on from here by itself; answers stay shared."""
        new, mine = object.__new__(Trace), self.__dict__
        new.__dict__.update(mine)
        new.__dict__.update({name: mine[name].copy() for name in _COPIED}, text="")
        return new

    def become(self, other: Trace) -> None:
        """Go on from where `other` is."""
        self.__dict__.update(other.__dict__)

    # asking ---------------------------------------------------------------------------------------------------------------

    def ask(self, operation: str, *operands: object, path: str = "") -> Any:
        """The answer as a pass may hold it: a plain value, an object of ours, or a handle."""
        for group in [item for item in flat(operands) if id(item) in self.groups and not self.gave(item)] if self.groups else ():
            self.ask("attr", *self.groups[id(group)])  # what is given to Python is what Python gave
        if self._told_apart:
            operands = tuple(item if is_word(operation, place) else self._by_origin(item) for place, item in enumerate(operands))
        question = question_of(operation, operands, self.reference)
        again = question in self._values
        value = self._values[question] if again else self._known_as(question, operation, operands, path)
        if operation not in MAKING:
            return value
        again, _ = question in self._begun, self._begun.add(question)
        return self._next_turn(question, operation, operands, path) if again else value

    def start(self) -> None:
        """Another pass begins: what a call makes in each of its turns it made for the pass before."""
        self._turns, self._begun = {}, set()

    def _known_as(self, question: str, operation: str, operands: tuple[object, ...], path: str) -> object:
        value = self._values[question] = self._ask(question, operation, operands, path)
        return value

    def _next_turn(self, first: str, operation: str, operands: tuple[object, ...], path: str) -> object:
        """The answer to what was asked before and may have made an iterator: whoever has that moves it on, so the next one to ask gets one of their own."""
        turn, last = self._turns.get(first, (0, 0))
        question = question_of(operation, (*operands, turn), self.reference) if turn else first
        number = self._iterator(self._values[question])
        if number == last or any(self._iterator(item) for item in flat(operands)):  # none, one that is stored and comes again, or one of what another has left
            return self._values[question]
        self._turns[first] = turn + 1, number
        numbered = (*operands, turn + 1)
        question = question_of(operation, numbered, self.reference)
        return self._values[question] if question in self._values else self._known_as(question, operation, numbered, path)

    def _iterator(self, value: object) -> int:
        """The number of an iterator; 0: it is none."""
        number = number_of_handle(cast("Handle", value)) if is_handle(value) else 0
        return number if number > 0 and ITERATOR in self.nature(value) else 0

    def replay(self, question: str) -> str:
        """Ask a question that was written down; its answer as it would be written. ArtifactError: it is no question of this kernel."""
        operation, operands = self._read(question)
        try:
            self.ask(operation, *operands)
        except Exception as error:
            if self.answers.raised(error):
                raise Unanswered from error
            raise
        found = self.log[-1]
        if found.question != question:
            raise ArtifactError("a question of the cache is asked twice")
        return found.answer

    def _read(self, question: str) -> tuple[str, list[object]]:
        try:
            rows = json.loads(question)
            operation, operands = rows[0], [decode(row, self._referred) for row in rows[1:]]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ArtifactError("a question of the cache cannot be read") from None
        first = self.raw(operands[0]) if operands and is_handle(operands[0]) else None
        if question in self._values or not has_form(operation, operands, first):
            raise ArtifactError("a question of the cache is none of ours")
        there = self.definitions
        words = () if operation == "call" and self._gave_plain(operands[0]) else named_by(operation, operands)  # a builtin by another name: `largest = max`
        if not all(isinstance(word, str) and (word in UNNAMED or any(one.has_word(word) for one in there)) for word in words):
            raise ArtifactError("a question of the cache asks for what the kernel does not name")
        return operation, operands

    def _gave_plain(self, value: object) -> bool:
        """Whether a plain value is the answer to a question, or in one."""
        written = "" if is_handle(value) else dumps(encode(value))
        return bool(written) and any(written in asked.answer for asked in self.log)

    def reference(self, value: object) -> list[object]:
        """An operand that is no plain value: the number of the question that gave it."""
        if not is_handle(value) and id(value) not in self._first:
            what = f"{defining_module(value)}.{class_name(type(value))}"
            raise UnsupportedFeatureError(f"a {what} that the kernel made itself cannot be given to Python", help="make it outside the kernel")
        return ["#", number_of_handle(cast("Handle", value)) if is_handle(value) else self._first[id(value)]]

    def _referred(self, tag: str, rows: list[Any]) -> object:
        number = rows[0]
        if tag != "#" or type(number) is not int or not 0 <= number < len(self.objects):
            raise ValueError(tag)
        return Handle(number)

    def raw(self, value: object) -> object:
        """What a handle stands for, inside containers that the kernel made too."""
        kind = type(value)
        if kind is Handle:
            number = number_of_handle(cast("Handle", value))
            return self.objects[number] if number >= 0 else self._untracked[-1 - number]
        if isinstance(value, Member):
            return member_of(self.objects[value.number], value.path)
        return rebuilt(value, self.raw)

    def in_message(self, value: object) -> object:
        """What a handle stands for, to be named or shown: what a pass decides by has to be asked."""
        return self.raw(value)

    def untracked(self, value: object) -> object:
        """What `pl.untracked` holds, which is in no key; None for all else."""
        return self.raw(value) if is_handle(value) and number_of_handle(cast("Handle", value)) < 0 else None

    def nature(self, value: object) -> Nature:
        """What passes go by before they do something with an object (reads/natures.py)."""
        return self.ask("nature", value) if is_handle(value) else nature(value)

    def _by_origin(self, operand: object) -> object:
        """An operand with handles for plain values that equal others: a helper which looks at identity is given the object that the text names."""
        number = self._told_apart.get(id(operand))
        return Handle(number) if number is not None else rebuilt(operand, self._by_origin)

    def _kept(self, operand: object) -> object:
        """An operand as it is asked now and at every later call. A helper may look at the identity of a plain value: it is given the very object that
        another question gave, if one did. Lists and dicts of the kernel are copied, for the kernel may change them."""
        kind = type(operand)
        if kind is Handle:
            return operand
        if kind is str and not self._plain:
            return interned(operand)
        if is_plain(operand):
            number = self._plain.get(written := dumps(encode(operand)))
            found = Handle(number) if number is not None else self._members.find(written)
            if found is not None or kind not in (tuple, slice):
                return interned(operand) if found is None else found
        elif id(operand) in self._first:
            return Handle(self._first[id(operand)])
        return rebuilt(operand, self._kept)

    def gave(self, value: object) -> bool:
        """Whether Python gave this very object: a kernel, a symbol or another object of ours that a pass holds as it is, and the user has hold of too."""
        return id(value) in self._first

    def path_of(self, value: object) -> str:
        """How a message spells what a handle stands for."""
        number = number_of_handle(cast("Handle", value)) if is_handle(value) else -1
        return self.paths[number] if number >= 0 else "…"

    def _ask(self, question: str, operation: str, operands: tuple[object, ...], path: str) -> object:
        kept: tuple[object, ...] = tuple(interned(item) if is_word(operation, place) else self._kept(item) for place, item in enumerate(operands))
        raws: tuple[object, ...] = tuple(map(self.raw, kept))
        raws = (self.arguments, *raws) if operation == "argument" else owner_first(operation, raws)
        given = operation == "argument" or (bool(self._given) and any(self._is_given(item) for item in flat(operands)))
        tracked = not any(is_handle(operand) and number_of_handle(cast("Handle", operand)) < 0 for operand in operands)
        identity = digest(question_of(operation, operands, self._shared_reference)) if tracked else ""
        known = self.table.get(identity) if self.policy == "ignore" and not given else None
        key = question_of(operation, operands, lambda item: ["id", id(self.raw(item))])
        spelled = self.answers.asking = spelled_as(operation, operands, self._shown)
        try:
            said = told_as(operation, path, spelled) if operation in SPOKEN else None
            raw = known.value if known is not None else self.answers.ask(key, operation, kept, raws, said)
            if known is None:
                self.seconds[spelled] = max(self.seconds.get(spelled, 0.0), self.answers.seconds)
        except Exception as error:
            if tracked and not given:
                self._compare(identity, '["error"]', error, spelled, operands)
            raise
        if not tracked:
            return self._hidden(raw)
        if given:
            self._given.add(len(self.objects))
        try:
            return self._noted(question, kept, identity, raw, spelled, known, operation == "content")
        except RecursionError:
            if not is_deep(raw):
                raise
            owner = maybe_definition(self.raw(operands[0])) if operation == "name" else None
            raise nested(spelled, owner.place_of(spelled) if owner is not None else None) from None

    def _is_given(self, operand: object) -> bool:
        number = number_of_handle(cast("Handle", operand)) if is_handle(operand) else self._first.get(id(operand))
        return number in self._given

    def _noted(self, question: str, operands: tuple[object, ...], identity: str, raw: object, spelled: str, known: Known | None, by_value: bool) -> object:
        number = len(self.objects)
        given = number in self._given
        if self.policy != "ignore":
            renew(raw)
        hidden = is_a(raw, Untracked)
        value, answer, shared, place = (None, '["untracked"]', '["untracked"]', "") if hidden else self._answer(raw, number, identity, by_value)
        if known is None and not given:
            self._compare(identity, shared, raw, spelled, operands)
        if is_plain(raw) and value is raw:  # of each NaN there is one object
            if self._plain.setdefault(answer, number) != number:
                value = another(raw)
                if value is not raw:
                    self._told_apart[id(value)] = number
            elif type(raw) is tuple and raw:
                self._members.add(number, cast("tuple[object, ...]", raw))
        self.log.append(Asked(question, operands, answer, identity, shared, given, place))
        self.objects.append(raw)
        self.paths.append(spelled)
        self._identities.append(identity)
        return self._hidden(raw.value) if is_a(raw, Untracked) else value

    def _hidden(self, raw: object) -> object:
        """A value that is in no key."""
        raw = raw.value if is_a(raw, Untracked) else raw
        if is_plain(raw) or is_a(raw, DynVar):
            return raw
        self._untracked.append(raw)
        return Handle(-len(self._untracked))

    def _answer(self, raw: object, number: int, identity: str, by_value: bool) -> tuple[object, str, str, str]:
        """The value for the pass, and the answer in writing: with numbers, and with identities; of an object also the question that is named for it."""
        if raw is MISSING:
            return MISSING, '["missing"]', '["missing"]', ""
        if by_value or is_plain(raw):
            written = dumps(encode(raw))
            return steady(raw), written, written, ""
        first = self._first.setdefault(id(raw), number)
        kind, mark = self._kind(raw)
        value = raw if kind != "object" else Handle(first)
        if kind == "kernel" and first == number and (definition := maybe_definition(raw)) is not None:
            self.definitions[definition] = number
        own = first == number or (first in self._given and number not in self._given)  # what the call gave may be another object in the next
        place = self._place(identity if own else self._identities[first], raw)
        return value, dumps([kind, mark, first]), dumps([kind, mark, place]), place

    def _place(self, identity: str, raw: object) -> str:
        """The question that is named for an object which several may give: the one that was first in any specialisation, whatever their order is here.
        Two objects of now that were one before have places of their own."""
        known = self.table.get(identity)
        place = (known.place if known is not None else "") or identity
        if self._at.setdefault(place, id(raw)) != id(raw):
            place = f"{identity} apart"
            self._at[place] = id(raw)
        return place

    def _kind(self, raw: object) -> tuple[str, str]:
        if is_a(raw, DynVar):
            return "symbol", raw.name
        definition = maybe_definition(raw)
        if definition is not None:
            return "kernel", definition.digest
        if is_language(raw) or true_module(raw) == "tilejit.language":
            return "language", getattr(raw, "__name__", "")
        return ours(raw) if is_part(raw) else ("object", "")

    # agreeing -------------------------------------------------------------------------------------------------------------

    def _shared_reference(self, value: object) -> list[str]:
        number = number_of_handle(cast("Handle", value)) if is_handle(value) else self._first[id(value)]
        return ["=", self._identities[number]]

    def _compare(self, identity: str, shared: str, raw: object, spelled: str, operands: tuple[object, ...]) -> None:
        known = self.table.get(identity)
        if known is None or known.answer == shared:
            return
        kind, owner = self._root(operands)
        drift = changed_answer(self.entry, f"{kind} `{spelled}`", owner, known.shown, raw)
        if self.policy == "raise":
            raise drift
        self.changed.append(drift)

    def _root(self, operands: tuple[object, ...]) -> tuple[str, Definition | None]:
        """Where a chain of questions starts, in a word, and whose name it is."""
        while True:
            first = next((item for item in flat(operands) if is_handle(item) or id(item) in self._first), None)
            if first is None:
                break
            number = number_of_handle(cast("Handle", first)) if is_handle(first) else self._first[id(first)]
            owner = next((definition for definition, given in self.definitions.items() if given == number), None)
            if owner is not None and len(operands) > 1 and isinstance(operands[1], str):
                namespace = cast("Any", owner.namespace)
                root = operands[1]
                return "attribute" if root in namespace.extra else "closure" if namespace.cell(root) is not None else "global", owner
            if number <= 0:
                break
            _, earlier = self._again(number)
            operands = tuple(earlier)
        return "value", None

    def _again(self, number: int) -> tuple[str, list[object]]:
        rows = json.loads(self.log[number - 1].question)
        return rows[0], [decode(row, self._referred) for row in rows[1:]]

    def _shown(self, operand: object) -> str:
        if is_handle(operand) and is_plain(raw := self.raw(operand)):
            return shown(raw)
        return self.path_of(operand) if is_handle(operand) else "(…)" if holds_handle(operand) else shown(operand)

    def commit(self) -> None:
        """From now on the kernel stands on these answers."""
        for asked, raw in zip(self.log, self.objects[1:], strict=True):
            known = self.table.get(asked.identity)
            if not asked.given and (known is None or known.answer != asked.shared):
                self.table[asked.identity] = Known(asked.shared, raw, shown(raw), asked.place)

    def described(self) -> dict[str, str]:
        """The reads in words, for `explain` and the entry on disk."""
        out: dict[str, str] = {}
        for number, asked in enumerate(self.log, 1):
            operation = asked.question[2 : asked.question.index('"', 2)]  # of a list as JSON, the first member
            if operation in ("chain", "annotations", "assigned", "nature", "kind") or self.objects[number] is MISSING:
                continue
            if (is_plain(self.objects[number]) and not asked.answer.startswith('["builtin"')) or operation == "content":
                kind, owner = self._root(tuple(self._again(number)[1]))
                where = "" if owner is self.entry or owner is None else f" (in {owner.function.__module__}.{owner.function.__qualname__})"
                out[f"{kind} `{self.paths[number]}`{where}"] = shown(self.objects[number], 120)
        return out


_COPIED = ("log", "objects", "paths", "changed", "_untracked", "_identities", "_given",
           "_values", "_turns", "_begun", "_plain", "_members", "_told_apart", "_at", "_first",
           "definitions", "names", "modules", "assigned", "groups", "seconds")  # fmt: skip
"""What traces do not share with those that they are forked from."""
