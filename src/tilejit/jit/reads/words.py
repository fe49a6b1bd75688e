"""Memory words that are a licence not to ask: as long as none of them changed, a question has the answer it had."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilejit.jit.reads.natures import METHODS, kind_that_changes
from tilejit.jit.reads.owners import maybe_definition
from tilejit.jit.reads.plain import MATHS, is_open, is_plain, is_settled, same
from tilejit.jit.reads.questions import MISSING, followed, is_language
from tilejit.kinds import is_a
from tilejit.runtime.call.bindings import (
    IMMUTABLE_TYPE,
    MANAGED_DICT,
    HeldWord,
    PointerWord,
    Word,
    bases_of,
    binding_words,
    cell_word,
    dict_offset,
    dict_pointer,
    dict_words,
    joined,
    looks_up_like,
    own_names,
    type_flags,
    type_word,
    version_words,
)
from tilejit.types.annotations import DirectedAnnotation, DynVar, Once, ScalarAnnotation, TensorAnnotation

if TYPE_CHECKING:
    from tilejit.frontend.fold import Namespace
    from tilejit.jit.definition import Definition


def words_of(operation: str, operands: tuple[Any, ...], answer: object) -> list[Word] | None:
    """Words that stay the same as long as the answer does, in the order they must be compared; None where only asking tells."""
    if operation == "name":
        return held_words(name_words(operands[0].namespace, operands[1]), answer)
    if operation == "around":
        return _chain_words(operands[0].annotation_namespace, operands[1], operands[2:])
    if operation == "chain":
        return _chain_words(operands[0].namespace, operands[1], operands[2:])
    if operation == "attr" and is_plain(operands[0]) and not is_open(operands[0], operands[1]):
        return []
    if operation == "attr":
        return held_words(attribute_words(operands[0], operands[1]), answer)
    if operation == "annotations":
        return _annotation_words(operands[0])
    if operation == "assigned":
        return _language_words(operands[0], operands[1:])
    if operation in ("default", "symbol"):
        return []  # the function's own words tell
    if operation in ("item", "items", "content") and type(operands[0]) is tuple:
        return [] if is_plain(operands[1] if operation == "item" else operands[0]) else None
    if operation == "content" and answer is MISSING:
        return _no_content_words(operands[0])
    if operation == "nature":
        return _nature_words(operands[0])
    if operation == "kind":
        return _instance_words(*operands)
    if operation == "call":
        return _call_words(operands)
    return None


def _language_words(module: types.ModuleType, names: tuple[str, ...]) -> list[Word] | None:
    """Words for all names of the language and of groups of them, not for each: they rarely change, and are compared at every call."""
    here: list[Word] = [HeldWord(type_word(module), module)]
    if type(module) is not types.ModuleType:
        return here  # all names count as assigned, whatever it holds
    own = cast("dict[str, object]", vars(module))
    groups = {first: own.get(first) for first, dot, _ in (name.partition(".") for name in names) if dot}
    return joined(here, dict_words(own), *(_group_words(group) for group in groups.values() if group is not None))


def _group_words(group: object) -> list[Word] | None:
    """Words of all names in a group: its dict can be changed, and replaced."""
    names = getattr(group, "__dict__", None)
    if type(names) is not dict:
        return None
    own = cast("dict[str, object]", names)
    where = dict_pointer(group, own)
    return joined(held_words(where, group), dict_words(own))


def _annotation_words(definition: Definition) -> list[Word] | None:
    """Words of all names in annotations in quotes, where they lead to what never changes and nothing else decides."""
    quoted, namespace = definition.quoted, cast("Namespace", definition.annotation_namespace)
    if not quoted.decided:
        return None
    parts: list[list[Word] | None] = []
    for root, *names in list(quoted.chains):  # other threads find more of them
        found = namespace.get(root, MISSING)
        if is_language(found) and len(names) <= 1:
            continue  # one question tells of all names of the language
        parts += [_chain_words(namespace, root, tuple(names)), _end_words(followed(found, names))]
    return joined(*parts)


_FROZEN = (DynVar, TensorAnnotation, ScalarAnnotation, DirectedAnnotation)
"""What annotations are made of besides plain values; none of these changes."""


def _end_words(found: object) -> list[Word] | None:
    """Words of what a name in an annotation leads to: of classes, unless a subscript of them runs code of somebody's."""
    if is_plain(found) or type(found) in _FROZEN or found is Any:
        return []
    return version_words(found) if type(found) is type and not hasattr(found, "__class_getitem__") else None


def _call_words(operands: tuple[Any, ...]) -> list[Word] | None:
    from tilejit.jit.reads.pure import pure_words

    function, args, keywords = operands[:3]
    if is_a(function, Once):
        return [] if not any(map(holds_callable, (*args, *keywords.values()))) else None
    if function is isinstance and len(args) == 2 and not keywords and is_plain(args[0]) and all(map(is_fixed_type, _members(args[1]))):
        return []
    if not all(is_plain(value) and is_settled(value) and not holds_callable(value) for value in (*args, *keywords.values())):
        return None
    if id(function) in MATHS:
        return []
    if is_a(function, types.BuiltinMethodType):
        return [] if type(function.__self__) in (int, float, str, bytes, tuple) and is_plain(function.__self__) and _is_own(function.__name__) else None
    return pure_words(function, (*args, *keywords.values()))


def _members(kinds: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", kinds) if type(kinds) is tuple else (kinds,)


def is_fixed_type(kind: object) -> bool:
    """Whether it is a type whose instances nobody else decides: `float`, `str`."""
    return type(kind) is type and bool(kind.__flags__ & IMMUTABLE_TYPE)


def _is_own(method: str) -> bool:
    """Whether what a method of a number, text or tuple returns follows from these alone: codecs are registered, and formats ask their operands."""
    return not method.startswith("_") and method not in ("encode", "decode", "format", "format_map")


def holds_callable(value: object) -> bool:
    """Whether a plain value is, or has in it, something that can be called: `eval` is plain, and what it returns follows from anything."""
    return callable(value) or (type(value) is tuple and any(map(holds_callable, cast("tuple[object, ...]", value))))


def is_same(found: object, known: object) -> bool:
    """Whether two answers are one to whoever asks: the same object, equal plain values, or methods, which are made at each read, of one object."""
    if found is known or (is_plain(found) and is_plain(known) and same(found, known)):
        return True
    if type(found) is types.MethodType and type(known) is types.MethodType:
        return found.__self__ is known.__self__ and found.__func__ is known.__func__
    return type(found) is types.BuiltinMethodType and type(known) is types.BuiltinMethodType and found == known  # by identity of object and function


def _nature_words(value: Any) -> list[Word] | None:
    """Words of what an object is like, which follows from its class; of a method from that of what it belongs to."""
    cls = type(value)
    if cls is set:
        return None  # its members tell
    if cls not in METHODS:
        return _kind_words(value)
    owner = cast("object", value.__self__)
    if issubclass(type(owner), types.ModuleType):
        return []  # nothing can be a module and one of the types that methods change
    if kind_that_changes(type(owner)) is None:
        return _kind_words(owner)
    return [] if cls is types.BuiltinMethodType and type_flags(type(owner)) & IMMUTABLE_TYPE else None  # what functions are called may change


def _instance_words(value: object, owner: object, param: str) -> list[Word] | None:
    """Words of whether an object is of a parameter's class, which follows from its own where neither class has a say in that."""
    definition, cls = maybe_definition(owner), type(value)
    assert definition is not None
    kinds = [kind for item in definition.params if item.name == param for kind in item.classes]
    if any(type(kind).__instancecheck__ is not type.__instancecheck__ for kind in kinds):
        return None
    plain = looks_up_like(cls, object) and _raw(cls, "__class__") is vars(object)["__class__"]
    return joined(_kind_words(value), *map(_kind_words, kinds)) if plain else None


def _no_content_words(value: object) -> list[Word] | None:
    """Words of an object that has no content because of its class."""
    cls = type(value)
    if cls is types.ModuleType:
        return [type_word(value)]
    if issubclass(cls, _WITH_CONTENT) or not looks_up_like(cls, object) or _raw(cls, "__class__") is not vars(object)["__class__"]:
        return None
    return joined([type_word(value)], version_words(cls))


_WITH_CONTENT = (int, float, str, bytes, tuple, list, dict, set, frozenset, np.ndarray, np.generic)


def held_words(words: list[Word] | None, answer: object) -> list[Word] | None:
    """The last word leads to the answer, which lives as long as it is watched; None: to another object, by now."""
    if not words:
        return words
    if isinstance(words[-1], PointerWord) and words[-1][1] != id(answer):
        return None
    return [*words[:-1], HeldWord(words[-1], answer)]


def name_words(namespace: Namespace, name: str) -> list[Word] | None:
    """Words of a name that a function sees; None where more than dicts are asked."""
    cell = namespace.cell(name)
    if name in namespace.extra:
        return []
    empty = [] if cell is None else [cell_word(cell)]
    if empty and empty[0][1]:
        return empty
    module, others = cast("dict[str, object]", namespace.globals), cast("dict[str, object]", namespace.builtins)
    if type(module) is not dict or type(others) is not dict:
        return None  # a subclass may look elsewhere
    return joined(empty, binding_words(module, name), [] if name in module else binding_words(others, name))


def _chain_words(namespace: Namespace, root: str, names: tuple[str, ...]) -> list[Word] | None:
    words = name_words(namespace, root)
    found = namespace.get(root, MISSING)
    for name in names:
        if found is MISSING:
            return words
        if is_language(found):
            return None
        held = held_words(words, found)
        if held is None:
            return None
        more = [] if is_plain(found) and not is_open(found, name) else attribute_words(found, name)
        if more is None:
            return None
        words = [*held, *more]
        found = followed(found, (name,))
    return held_words(words, found)


def attribute_words(container: object, name: str) -> list[Word] | None:
    """Words that tell whether `container.name` is still found where it was; None where more than classes and dicts are asked."""
    cls = type(container)
    if cls is types.ModuleType:
        return _words_in_module(cast("types.ModuleType", container), name)
    if issubclass(cls, type):
        return _words_in_class(cast("type", container), name)
    return _words_in_instance(container, name)


def _words_in_module(module: types.ModuleType, name: str) -> list[Word] | None:
    names = cast("dict[str, object]", vars(module))
    if name not in names or _raw(types.ModuleType, name) is not MISSING:
        return None  # served by its `__getattr__`, or by what all modules have
    return joined([type_word(module)], dict_pointer(module, names), binding_words(names, name))


def _words_in_class(cls: type, name: str) -> list[Word] | None:
    meta, found = type(cls), _raw(cls, name)
    if not looks_up_like(meta, type) or found is MISSING or _raw(meta, name) is not MISSING:
        return None
    if _is_descriptor(found) and type(found) is not types.FunctionType:  # a static method can be given another function
        return None
    return joined([type_word(cls)], version_words(meta), version_words(cls), _kind_words(found))


def _words_in_instance(instance: object, name: str) -> list[Word] | None:
    cls = type(instance)
    found = _raw(cls, name)
    if not looks_up_like(cls, object):
        return None
    if type(found) is types.MethodDescriptorType and not dict_offset(cls) and not type_flags(cls) & MANAGED_DICT:
        return joined([type_word(instance)], version_words(cls))
    if _is_descriptor(found) and type(found) is not types.FunctionType:
        return None
    own = _own_dict(instance)
    if type(own) is not dict or (found is MISSING and name not in own):
        return None
    names = cast("dict[str, object]", own)
    return joined([type_word(instance)], version_words(cls), _kind_words(found), dict_pointer(instance, names), binding_words(names, name))


def _own_dict(instance: object) -> object:
    """The dict of an object, whatever its class says under that name."""
    kept = _raw(type(instance), "__dict__")
    return kept.__get__(instance) if type(kept) is types.GetSetDescriptorType or type(kept) is types.MemberDescriptorType else None


def _kind_words(found: object) -> list[Word] | None:
    """What makes an attribute of a class a descriptor, or none, and a class say what its instances are: its class, which can be replaced, and what that has."""
    cls = type(found)
    fixed = type_flags(cls) & IMMUTABLE_TYPE and not issubclass(cls, types.ModuleType)
    return joined([] if fixed else [HeldWord(type_word(found), found)], version_words(cls))


def _raw(cls: type, name: str) -> object:
    """What a class or its bases hold under `name`, before any descriptor is asked."""
    return next((own_names(base)[name] for base in bases_of(cls) if name in own_names(base)), MISSING)


def _is_descriptor(value: object) -> bool:
    return _raw(type(value), "__get__") is not MISSING
