"""What a compiled kernel stands on at warm calls: words that are compared, else questions that are asked again."""

from __future__ import annotations

import json
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from sys import getrefcount
from typing import Any, cast

from tilejit import float_mode
from tilejit.errors import TilejitWarning
from tilejit.jit.definition import Definition, replaced_part
from tilejit.jit.reads.asker import ALONE, Number, Questions, Same, Step, agrees, asker_of, moves_on, numbers_in
from tilejit.jit.reads.handles import Handle, is_handle, number_of, rebuilt
from tilejit.jit.reads.members import Member, member_of
from tilejit.jit.reads.owners import maybe_definition, owner_first
from tilejit.jit.reads.questions import AGAIN, MISSING, answered
from tilejit.jit.reads.trace import Trace
from tilejit.jit.reads.words import is_same, words_of
from tilejit.kinds import is_a
from tilejit.lazy import lazy
from tilejit.runtime.call.bindings import Word, annotation_words, function_words, joined
from tilejit.runtime.call.layout import supported
from tilejit.runtime.call.memory import WORDS, comparison
from tilejit.types.annotations import Once

_RENEWALS = 64
"""How often words may change without an answer before they are no longer compared."""
_TURNS = 3
"""How often words and answers are compared in turns before the ones stand for the others: a thread may change what they are about in between, and back."""
_SLOW = 20e-6
"""Seconds that asking one question at each call may take before somebody is told."""


class FunctionState:
    """The kernels' own functions: their code and defaults can be replaced too."""

    def __init__(self, definitions: Iterable[Definition] = ()) -> None:
        self._parts: dict[types.FunctionType, tuple[object, ...]] = {}
        self.add(definitions)

    def add(self, definitions: Iterable[Definition]) -> None:
        """Look after these too, as they were when they were read."""
        for definition in definitions:
            function = definition.function
            assert isinstance(function, types.FunctionType)
            self._parts.setdefault(function, definition.parts)

    def replaced(self) -> tuple[types.FunctionType, str, object] | None:
        """A function that has another code or other defaults now: which, and what it was."""
        for function, parts in self._parts.items():
            if (found := replaced_part(function, parts)) is not None:
                return function, *found
        return None

    def tests(self, names: dict[str, object]) -> list[str]:
        """The same as expressions; `names` is what they can refer to."""
        names["replaced_part"] = replaced_part
        tests: list[str] = []
        for number, (function, parts) in enumerate(self._parts.items()):
            code, defaults, by_name, annotations = parts
            names |= {f"f{number}": function, f"p{number}": parts, f"c{number}": code, f"s{number}": defaults}
            tests += [f"f{number}.__code__ is c{number}", f"f{number}.__defaults__ is s{number}"]
            if by_name is None and isinstance(annotations, dict):
                values = cast("dict[str, object]", annotations)
                names |= {f"n{number}": list(values), f"i{number}": list(map(id, values.values()))}
                tests += [f"f{number}.__kwdefaults__ is None", f"[*(a := f{number}.__annotations__)] == n{number}", f"[*map(id, a.values())] == i{number}"]
            else:
                tests.append(f"replaced_part(f{number}, p{number}) is None")
        return tests

    def words(self) -> list[Word] | None:
        """Memory words that stay the same while none of them is replaced; None where only asking tells."""
        return joined(*(words for function in self._parts for words in (function_words(function), annotation_words(function))))


def asked_of(trace: Trace) -> frozenset[tuple[str, str]]:
    """Questions and answers, whatever their order."""
    return frozenset((asked.identity, asked.shared) for asked in trace.log)


def watch_of(trace: Trace, known: Iterable[object]) -> Watch:
    """How to tell that the answers of a trace are what they were: one of those that are there already, for the objects of now, or a new one."""
    asked = asked_of(trace)
    found = next((watch for watch in known if isinstance(watch, Watch) and watch.asked == asked), None)
    if found is None:
        return Watch(trace)
    same_order = [step.identity for step in found.questions.steps] == [row.identity for row in trace.log]
    return found if found.follow(trace.objects if same_order else None) else Watch(trace)


class Watch:
    """Whether everything that one specialisation asked still has the answer it had."""

    def __init__(self, trace: Trace) -> None:
        self.asked = asked_of(trace)
        """What it is about."""
        self._seconds = trace.seconds
        steps: list[Step] = []
        for number, asked in enumerate(trace.log, 1):
            answer = json.loads(asked.answer)
            first = answer[-1] if isinstance(answer, list) and type(answer[-1]) is int else 0
            operands = tuple(_numbered(operand, steps) for operand in asked.operands)
            steps.append(Step(json.loads(asked.question)[0], operands, trace.objects[number], trace.paths[number], asked.identity, first))
        self._renewals = 0
        self._now = _learned(steps, trace.objects)
        """How to tell that the answers hold. Replaced as a whole: threads that look meanwhile have the one or the other."""

    @property
    def questions(self) -> Questions:
        """The questions for the objects of now, with the words that stand for those that are watched."""
        return self._now.questions

    def follow(self, objects: Sequence[object] | None) -> bool:
        """Watch these objects, which are what the questions gave now; None: ask. False: an answer changed."""
        now = self._now
        found = now.asked() if objects is None else objects
        if found is None or now.functions.replaced() is not None:
            return False
        if not (self.same_words() and all(map(is_same, found, now.questions.objects))):
            self._now = _learned(now.questions.steps, found)
        return True

    def renew(self) -> bool:
        """Ask everything again and watch the objects that there are now; False: an answer changed."""
        return self.follow(None)

    def same_words(self) -> bool:
        """Whether every memory word is as it was, and this thread computes as then; what no words can tell is for the asker."""
        now = self._now
        return float_mode.bits() == now.mode and now.same_words()

    def asker(self, questions: Sequence[object], refused: set[int]) -> Callable[[], bool] | None:
        """A function that asks what the words of all these do not tell; None: nothing is left to ask."""
        return asker_of(cast("Sequence[Questions]", questions), refused)

    def holds(self) -> bool:
        """Whether nothing changed though words did, or where there are none."""
        now = self._now
        if now.questions.words is not None and self._renewals < _RENEWALS:  # something else was bound next to what is watched
            self._renewals += 1
            return self.renew()
        return now.functions.replaced() is None and (now.leads_on() or now.asked() is not None)

    def lookups(self) -> Callable[[], bool] | None:
        """A function that tells without asking that nothing changed, where no words do; None: it would not know now."""
        now = self._now
        return now.lookups if now.questions.words is None and now.leads_on() else None

    def described(self) -> str:
        """Every question with its tier and cost, in words."""
        now = self.questions
        rows = [] if now.words is None else [f"drift check: {len(now.words)} words compared per call"]
        left = now.left()
        if left:
            rows.append(f"drift check: {len(left)} of {len(now.steps)} reads {'is' if len(left) == 1 else 'are'} asked again per call")
        for step in now.steps:
            cost = f", {1e6 * self._seconds.get(step.path, 0.0):.1f} µs" if step.tier == "asked" else ""
            if step.operation not in ("assigned", "symbol"):
                rows.append(f"  {step.tier}{cost}: {step.path}")
        return "\n".join(rows)

    def warn_if_slow(self, kernel: str, now: Mapping[str, float], before: dict[str, float]) -> None:
        """Say once which question makes each call slow: one that took long both times that it was asked."""
        for path, operation in {step.path: step.operation for step in self.questions.steps if step.tier == "asked"}.items():
            spent = min(now.get(path, 0.0), before.get(path, 0.0))
            if spent > _SLOW:
                before[path] = 0.0
                in_quotes = operation == "annotations"
                remedy = "give what they compute a name, and write that name" if in_quotes else "pass it as an argument, or wrap it in pl.once(f)"
                text = f"kernel `{kernel}` asks `{path}` at each call, which takes {1e6 * spent:.0f} µs: {remedy}"
                warnings.warn(text, TilejitWarning, stacklevel=3)


def _never() -> bool:
    return False


class _Learned:
    """How to tell that the answers of one specialisation hold, for the objects of one moment. Never changed."""

    def __init__(self, steps: Sequence[Step], objects: Sequence[object]) -> None:
        self._objects, self.mode = list(objects), float_mode.bits()
        found = (maybe_definition(raw) for raw, step in zip(self._objects, (None, *steps), strict=True) if step is None or step.gives_object)
        self.functions = FunctionState(definition for definition in found if definition is not None)
        self._steps = [self._step(step, answer) for step, answer in zip(steps, self._objects[1:], strict=True)]
        rows = [_rows(step, self._objects) for step in self._steps]
        self._direct = None if any(row is None for row in rows) else [part for row in rows for part in row or ()]
        """Lookups in dicts that all lead to the same objects as long as nothing changed; None where more has to be asked."""
        left = Questions(self._steps, self._objects).left()
        for number in left:
            self._steps[number - 1].words = None
        self._watched = [step for number, step in enumerate(self._steps, 1) if number not in left]
        words = self._words_here()
        self.same_words = _never if words is None else comparison(words)
        """Whether every memory word is as it was; False where there are none."""
        self.is_steady = words is None or (self.same_words() and all(self._calls_hold() and self.same_words() for _ in range(_TURNS)))
        """Whether asking left the words as they were read before it; else they may be those of another answer, which has come and gone meanwhile."""
        if not self.is_steady:
            words, self.same_words = None, _never
        self.questions = Questions(self._steps, self._objects, words)

    def _step(self, before: Step, answer: object) -> Step:
        step = replace(before, answer=answer, words=None)
        raws = owner_first(step.operation, tuple(_filled(operand, self._objects) for operand in step.operands))
        step.once = step.operation == "call" and is_a(raws[0], Once)
        step.words = words_of(step.operation, raws, answer) if supported() else None
        return step

    def _words_here(self) -> list[Word] | None:
        if WORDS is None or not supported():
            return None
        words = joined(self.functions.words(), *(step.words or [] for step in self._watched))
        if words is None or self.functions.replaced() is not None or not self._watched_hold():
            return None
        return list({word[0]: word for word in words}.values())

    def _watched_hold(self) -> bool:
        """Whether the watched questions have their answers still, now that their words were read: only then do the words stand for them."""
        return self._hold(self._watched)

    def _calls_hold(self) -> bool:
        """The same of calls alone: words of names lead to the answer itself, those of a function to what it would read."""
        return self._hold([step for step in self._watched if step.operation == "call"])

    def _hold(self, steps: Sequence[Step]) -> bool:
        try:
            return all(step.once or is_same(_evaluated(step, self._objects), step.answer) for step in steps)
        except Exception:
            return False

    def leads_on(self) -> bool:
        """Whether lookups in dicts tell that all objects are the same."""
        if self._direct is None:
            return False
        for names, name, value, module in self._direct:
            if names.get(name, MISSING) is not value or (module is not None and type(module) is not types.ModuleType):
                return False
        return True

    @lazy
    def lookups(self) -> Callable[[], bool]:
        """`leads_on` and the functions in one expression, for interpreters of which no words are known."""
        names: dict[str, object] = {"MISSING": MISSING, "Module": types.ModuleType}
        tests = self.functions.tests(names)
        for number, (owner, name, value, module) in enumerate(self._direct or ()):
            names |= {f"d{number}": owner, f"v{number}": value, f"m{number}": module}
            tests.append(f"d{number}.get({name!r}, MISSING) is v{number}")
            tests += [f"type(m{number}) is Module"] if module is not None else []
        return cast("Callable[[], bool]", eval(f"lambda: {' and '.join(tests) or True}", names))  # our own text: names are spelt as strings

    def asked(self) -> list[object] | None:
        """The objects of now, everything asked again in order; None when an answer changed."""
        objects: list[object] = [self._objects[0]]
        own: set[int] = set()
        try:
            for step in self._steps:
                same = step.once and all(objects[number] is self._objects[number] for number in numbers_in(step.operands))
                if not same and moves_on(step, objects, own):
                    return None
                found = step.answer if same else _evaluated(step, objects)
                if step.operation == "call" and getrefcount(found) <= ALONE:
                    own.add(len(objects))
                if not agrees(step, found):
                    return None
                objects.append(found)
        except Exception:
            return None  # the long way says what is wrong
        return objects if self.questions.same_objects(dict(enumerate(objects))) else None


def _learned(steps: Sequence[Step], objects: Sequence[object]) -> _Learned:
    """What tells that the answers hold; looked at once more where the first asking was what changed the words."""
    found = _Learned(steps, objects)
    return found if found.is_steady else _Learned(steps, objects)


def _evaluated(step: Step, objects: list[object]) -> object:
    raws = owner_first(step.operation, tuple(_filled(operand, objects) for operand in step.operands))
    return answered(step.operation, step.operands, raws, operations=AGAIN)


def _numbered(operand: object, steps: Sequence[Step]) -> object:
    """An operand of a question with numbers for what other questions gave."""
    if is_handle(operand):
        number = number_of(cast("Handle", operand))
        return Number(number) if number == 0 or steps[number - 1].gives_object else Same(number)
    if isinstance(operand, Member):
        return Same(operand.number, operand.path)
    return rebuilt(operand, lambda item: _numbered(item, steps))


def _filled(operand: object, objects: list[object]) -> object:
    if type(operand) is Number:
        return objects[operand.number]
    if type(operand) is Same:
        return member_of(objects[operand.number], operand.path)
    return rebuilt(operand, lambda item: _filled(item, objects))


_Row = tuple[dict[str, object], str, object, types.ModuleType | None]
"""A dict, a name in it and its value; the module whose dict it is, which must be a plain one."""


def _rows(step: Step, objects: list[object]) -> list[_Row] | None:
    """Lookups in dicts that tell whether the answer is the same object."""
    if step.tier == "once" or step.operation == "symbol":  # of the same symbol and function, always the same
        return []
    owner = objects[step.operands[0].number] if type(step.operands[0]) is Number else None
    if step.operation == "assigned":
        if step.answer != () or "_LOADED" not in vars(cast("types.ModuleType", owner)):
            return None  # somebody assigned some of them, or it only looks like the language
        return [row for name in step.operands[1:] for row in _language_rows(cast("types.ModuleType", owner), name)]
    if step.operation == "attr" and type(owner) is types.ModuleType:
        names, name = cast("dict[str, object]", vars(owner)), step.operands[1]
        return [(names, name, step.answer, owner)] if name in names else None
    definition = maybe_definition(owner)
    if definition is None or step.operation not in ("name", "chain") or len(step.operands) != 2:
        return None
    namespace, name = cast("Any", definition.namespace), step.operands[1]
    if namespace.cell(name) is not None or name in namespace.extra or type(namespace.globals) is not dict:
        return None
    if name in namespace.globals:
        return [(namespace.globals, name, step.answer, None)]  # not what is there now, which may be something else already
    return [(namespace.globals, name, MISSING, None), (namespace.builtins, name, step.answer, None)]


def _language_rows(module: types.ModuleType, path: str) -> list[_Row]:
    """Lookups that tell that a name of the language, or of a group of it, is what the language itself put there, or nothing yet."""
    first, _, second = path.partition(".")
    own = cast("dict[str, object]", vars(module))
    group = cast("dict[str, object]", own["_LOADED"]).get(first, MISSING)
    rows: list[_Row] = [(own, first, group, module)]
    if second and group is not MISSING:
        names = cast("dict[str, object]", vars(group))
        rows.append((names, second, cast("dict[str, object]", cast("Any", group).loaded).get(second, MISSING), None))
    return rows
