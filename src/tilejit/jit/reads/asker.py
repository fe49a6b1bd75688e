"""The function that asks again what no memory words can tell: written for the questions of a kernel, called by native code and by Python alike."""

from __future__ import annotations

import keyword
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, cast

from tilejit.jit.reads.members import member_of
from tilejit.jit.reads.natures import ITERATOR, STEPS, nature
from tilejit.jit.reads.owners import OWNED, maybe_definition
from tilejit.jit.reads.plain import is_part, is_plain, same
from tilejit.jit.reads.questions import AGAIN, MISSING, OPERATORS, answered, holds_made, is_language
from tilejit.kinds import is_a
from tilejit.runtime.call.bindings import Word
from tilejit.types.annotations import Untracked


@dataclass(slots=True)
class Step:
    """One question of a trace, ready to be asked again."""

    operation: str
    operands: tuple[Any, ...]
    """Plain values, and `Number` of earlier answers."""
    answer: object
    path: str
    identity: str
    """The same for the same question of any specialisation of the kernel."""
    first: int = 0
    """Of an object: the number of the question that gave it first."""
    words: list[Word] | None = None
    once: bool = False

    @property
    def tier(self) -> str:
        """"watched", "asked" or "once"."""
        return "once" if self.once else "asked" if self.words is None else "watched"

    @property
    def gives_object(self) -> bool:
        """Whether the answer is an object, which other questions may be about."""
        return not (is_plain(self.answer) or self.operation == "content" or self.answer is MISSING or is_a(self.answer, Untracked))


@dataclass(frozen=True, slots=True)
class Number:
    """The object that an earlier question gave."""

    number: int


@dataclass(frozen=True, slots=True)
class Same:
    """The object of now for a plain value that an earlier question gave: equal to the one before, so that nothing has to be asked because of it."""

    number: int
    path: tuple[int, ...] = ()
    """Of a member of a tuple: its place."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one specialisation with the objects of now; number 0 is the kernel. Never changed: other threads ask and compare meanwhile."""

    steps: Sequence[Step]
    objects: Sequence[object]
    words: list[Word] | None = None
    """The memory words that stay the same while no watched answer changes, with what they lead to; None: there are none."""

    def left(self) -> list[int]:
        """Numbers of the questions that have to be asked though no word changed: those without words, and what is about an object that they give."""
        out: dict[int, None] = {}
        for number, step in enumerate(self.steps, 1):
            if step.tier == "asked" or any(other in out for other in numbers_in(step.operands)):
                out[number] = None
        return list(out)

    def same_objects(self, found: dict[int, object]) -> bool:
        """Whether the same questions give the same objects as one another, now that some gave others than before."""
        first: dict[int, int] = {id(self.objects[0]): 0}
        for number, step in enumerate(self.steps, 1):
            if step.gives_object and first.setdefault(id(found.get(number, step.answer)), number) != step.first:
                return False
        return True


def numbers_in(operand: object) -> Iterator[int]:
    """The objects that a question is about."""
    if type(operand) is Number:
        yield operand.number
    elif type(operand) is tuple or type(operand) is list:
        for item in cast("tuple[object, ...]", operand):
            yield from numbers_in(item)
    elif type(operand) is dict:
        yield from numbers_in([*cast("dict[object, object]", operand), *cast("dict[object, object]", operand).values()])
    elif type(operand) is slice:
        yield from numbers_in((operand.start, operand.stop, operand.step))


def asker_of(questions: Sequence[Questions], refused: set[int]) -> Callable[[], bool] | None:
    """A function that asks what the words of these specialisations do not tell: whether all answers are what they were. None: nothing is left to ask.

    A thread that was told No is in `refused` then."""
    return _Writer(questions).function(refused) if any(one.left() for one in questions) else None


def is_kin(found: object, known: object) -> bool:
    """Whether an object is to a key what another one was: kernels by digest, unless replaced; modules of ours, symbols, functions of programs by themselves."""
    if found is known:
        return True
    if found is MISSING or is_plain(found) or is_a(found, Untracked):
        return False
    kernels = [maybe_definition(value) for value in (found, known)]
    if kernels[0] is not None or kernels[1] is not None:
        return kernels[0] is not None and kernels[1] is not None and kernels[0].digest == kernels[1].digest and not kernels[0].is_replaced
    return not any(is_language(value) or is_part(value) for value in (found, known))


def agrees(step: Step, found: object) -> bool:
    """Whether an answer is what it was: plain ones by type and value, objects by their kind. Which of them are the same is told apart."""
    known = step.answer
    if is_a(known, Untracked):
        return is_a(found, Untracked)
    if known is MISSING or found is MISSING:
        return found is known
    if not step.gives_object:
        return found is known or ((is_plain(found) or step.operation == "content") and same(found, known))
    return is_kin(found, known)


_MOVING = ("items", "call", "operator")


def moves_on(step: Step, objects: Sequence[object], own: Collection[int] = ()) -> bool:
    """Whether asking this moves an iterator on: then only the long way asks, which would see what is left of it. Of those in `own` it would get others."""
    return step.operation in _MOVING and any(number not in own and is_moved(objects[number]) for number in numbers_in(step.operands))


def is_moved(value: object) -> bool:
    """Whether it is an iterator, or the method that moves one on."""
    told = nature(value)
    return ITERATOR in told or STEPS in told


def _references() -> int:
    value = object()
    return getrefcount(value)


ALONE = _references()
"""How often an object is referred to that only a local name holds: what a call made and nobody else has, so that the next call makes another."""


_NAMES: dict[str, object] = {
    **{kind.__name__: kind for kind in (type, int, float, str, bytes, slice, Exception)},
    "agrees": agrees, "same": same, "answered": answered, "definition": maybe_definition,
    "is_moved": is_moved, "getrefcount": getrefcount, "this_thread": threading.get_ident,
}  # fmt: skip
"""What the text means by these names, whatever somebody assigned to builtins since."""
_FRAME = """
def ask():
 me = this_thread()
 if me in asking:  # a question calls the kernel: the long way says so
  return False
 asking.add(me)
 try:
  while True:
   ...
   return True
 except Exception:  # the long way says what is wrong
  pass
 finally:
  asking.discard(me)
 refused.add(me)
 return False
"""


class _Writer:
    """Its text holds numbers, names of attributes and operators only; everything of the user is an object in `names`."""

    def __init__(self, questions: Sequence[Questions]) -> None:
        self.questions = questions
        self.lines: list[str] = []
        self.names: dict[str, object] = {**_NAMES, "asking": set[int]()}
        self.asked: dict[str, str] = {}
        """Names of answers by the identities of their questions: what two specialisations ask is asked once."""

    def function(self, refused: set[int]) -> Callable[[], bool]:
        for place, questions in enumerate(self.questions):
            self.ask(questions, place)
        text = "".join(f"   {line}\n" for line in self.lines)
        self.names["refused"] = refused
        exec(_FRAME.replace("   ...\n", text), self.names)
        return self.names["ask"]  # type: ignore[return-value]

    def ask(self, questions: Questions, place: int) -> None:
        found: dict[int, str] = {}
        objects: list[int] = []
        for number in questions.left():
            step = questions.steps[number - 1]
            value = self.asked.get(step.identity)
            if value is None:
                self.leave_iterators(step, questions, found, place)
                value = self.asked[step.identity] = f"v{place}_{number}"
                self.lines.append(f"{value} = {self.evaluation(step, number, questions, found, place)}")
            found[number] = value
            known = self.bound(f"k{place}_{number}", step.answer)
            self.lines.append(f"if {self.differs(value, known, step, f's{place}_{number}')}: break")
            if step.gives_object:
                objects.append(number)
        if objects:
            moved = " or ".join(f"{found[number]} is not k{place}_{number}" for number in objects)
            here = ", ".join(f"{number}: {found[number]}" for number in objects)
            self.lines.append(f"if ({moved}) and not {self.bound(f'same{place}', questions.same_objects)}({{{here}}}): break")

    def leave_iterators(self, step: Step, questions: Questions, found: dict[int, str], place: int) -> None:
        """Iterators are for the long way: those of before, and what stands in place of something else now."""
        for number in dict.fromkeys(numbers_in(step.operands)) if step.operation in _MOVING else ():
            value, expected = found.get(number), is_moved(questions.objects[number])
            if value is not None:
                other = "" if expected else f"{value} is not k{place}_{number} and "
                self.lines.append(f"if {other}getrefcount({value}) > {ALONE} and is_moved({value}): break")
            elif expected:
                self.lines.append("break")

    def bound(self, name: str, value: object) -> str:
        self.names[name] = value
        return name

    def differs(self, value: str, known: str, step: Step, name: str) -> str:
        answer = step.answer
        other = f"{value} is not {known}"
        if answer is MISSING or answer is None or type(answer) is bool:
            return other
        if type(answer) in (int, str, bytes) or (type(answer) is float and answer != 0.0 and not math.isnan(answer)):
            return f"{other} and (type({value}) is not {type(answer).__name__} or {value} != {known})"
        if step.operation == "content":
            return f"{other} and not same({value}, {known})"
        return f"{other} and not agrees({self.bound(name, step)}, {value})"

    def evaluation(self, step: Step, number: int, questions: Questions, found: dict[int, str], place: int) -> str:
        operation = step.operation
        texts = [self.operand(operand, questions, found, f"c{place}_{number}_{position}") for position, operand in enumerate(step.operands)]
        moves = type(step.operands[0]) is Number and step.operands[0].number in found
        if operation in OWNED:
            texts[0] = f"definition({texts[0]})" if moves else self.bound(f"{texts[0]}_d", maybe_definition(self.names[texts[0]]))
        elif operation == "attr" and _is_word(step.operands[1]):
            return f"{texts[0]}.{step.operands[1]}"
        elif operation == "item":
            return f"{texts[0]}[{texts[1]}]"
        elif operation == "operator":
            return f"{self.bound(f'o{place}_{number}', OPERATORS[str(step.operands[0])])}({', '.join(texts[1:])})"
        elif operation == "call" and not moves and not holds_made(step.operands[1]):
            given = [f"*{texts[1]}"] * bool(step.operands[1]) + [f"**{texts[2]}"] * bool(step.operands[2])
            return f"{texts[0]}({', '.join(given)})"
        given = f"{self.bound(f'm{place}_{number}', step.operands)}, ({', '.join(texts)},)"
        again = f"{self.bound(f'q_{operation}', AGAIN[operation])}({', '.join(texts)})"
        if any(map(holds_made, step.operands)):
            again = f"answered('{operation}', {given})"
        if step.once:  # of a function, or with an argument, that is another one now it is the first time
            moved = {other: self.bound(f"once{place}_{number}_{other}", questions.objects[other]) for other in numbers_in(step.operands) if other in found}
            return f"k{place}_{number} if {' and '.join(f'{found[other]} is {known}' for other, known in moved.items())} else {again}"
        return again

    def operand(self, operand: object, questions: Questions, found: dict[int, str], name: str) -> str:
        """What a question is about, as Python text."""
        if type(operand) is Number or type(operand) is Same:
            number, path = operand.number, operand.path if type(operand) is Same else ()
            return found[number] + "".join(f"[{place}]" for place in path) if number in found else self.bound(name, member_of(questions.objects[number], path))
        if _is_constant(operand):
            return self.bound(name, operand)
        inner = [(f"{name}_{position}", item) for position, item in enumerate(_parts(operand))]
        parts = [self.operand(item, questions, found, inner_name) for inner_name, item in inner]
        if type(operand) is dict:
            return "{" + ", ".join(f"{key}: {value}" for key, value in zip(parts[::2], parts[1::2], strict=True)) + "}"
        if type(operand) is slice:
            return f"slice({', '.join(parts)})"
        return f"[{', '.join(parts)}]" if type(operand) is list else f"({', '.join(parts)},)"


def _is_word(name: str) -> bool:
    """Whether a name may stand in the text; Python spells those of other scripts anew."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _is_constant(operand: object) -> bool:
    """Whether an operand is the same for each call: no object of now, and no list or dict, which whoever gets it may change."""
    if type(operand) is tuple:
        return all(map(_is_constant, cast("tuple[object, ...]", operand)))
    return type(operand) not in (Number, Same, list, dict) and (type(operand) is not slice or all(map(_is_constant, _parts(operand))))


def _parts(operand: object) -> list[object]:
    if type(operand) is dict:
        return [part for pair in cast("dict[object, object]", operand).items() for part in pair]
    if type(operand) is slice:
        return [operand.start, operand.stop, operand.step]
    return list(cast("tuple[object, ...]", operand))
