"""Stand-ins for objects of the user: passes carry them about and touch them only through questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, cast


class Handle:
    """An object by the number of the question that gave it. Whatever a pass tries to do with it without asking fails at once."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "_number", number)

    def __getattribute__(self, name: str) -> object:
        if name == "__class__":
            return Handle  # isinstance and type may be asked: they say what it is, not what it stands for
        _untouchable()


def _untouchable(*args: object, **kwargs: object) -> NoReturn:
    raise AssertionError("a pass touched an object of the user without asking")


for _name in (
    "__bool__ __len__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __iter__ __next__ __reversed__ __contains__ __getitem__ __setitem__ __delitem__ "
    "__call__ __repr__ __str__ __format__ __bytes__ __int__ __float__ __complex__ __index__ __round__ __trunc__ __floor__ __ceil__ __neg__ __pos__ "
    "__abs__ __invert__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __matmul__ __rmatmul__ __imatmul__ __truediv__ "
    "__rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __divmod__ __rdivmod__ __pow__ __rpow__ __ipow__ "
    "__lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__ __irshift__ __and__ __rand__ __iand__ __or__ __ror__ __ior__ __xor__ __rxor__ __ixor__ "
    "__setattr__ __delattr__ __dir__ __enter__ __exit__ __get__ __set__ __delete__ __instancecheck__ __subclasscheck__ __reduce__ __reduce_ex__ "
    "__getstate__ __copy__ __deepcopy__ __sizeof__ __length_hint__ __fspath__ __await__ __aiter__ __anext__ __array__ __buffer__"
).split():
    setattr(Handle, _name, _untouchable)


def number_of(handle: Handle) -> int:
    """The number of the question that gave it."""
    return object.__getattribute__(handle, "_number")


def is_handle(value: object) -> bool:
    return type(value) is Handle


def is_one(first: object, second: object) -> bool:
    """Whether two values are the same object, of Python or of the kernel."""
    return first is second or (type(first) is Handle is type(second) and number_of(cast("Handle", first)) == number_of(cast("Handle", second)))


def is_made_here(value: object) -> bool:
    """Whether a value is a list or dict that a kernel made, without handles: those of the user are handles themselves."""
    return type(value) in (list, dict, tuple, set) and not holds_handle(value)


def rebuilt(value: object, member: Callable[[object], object]) -> object:
    """A tuple, list, dict or slice that a kernel made, with `member` of each of its members; anything else as it is."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([member(item) for item in cast("tuple[object, ...]", value)])
    if kind is dict:
        return {key: member(item) for key, item in cast("dict[object, object]", value).items()}  # keys are hashed, which no stand-in can be
    if kind is slice:
        part = cast("slice", value)
        return slice(member(part.start), member(part.stop), member(part.step))
    return value


def holds_handle(value: object) -> bool:
    """Whether a value is a handle, or a tuple, list or dict that a kernel made with one in it."""
    kind = type(value)
    if kind is Handle:
        return True
    if kind is tuple or kind is list:
        return any(map(holds_handle, value))  # type: ignore[call-overload]
    if kind is dict:
        return any(holds_handle(key) or holds_handle(item) for key, item in value.items())  # type: ignore[attr-defined]
    if kind is slice:
        return holds_handle(value.start) or holds_handle(value.stop) or holds_handle(value.step)  # type: ignore[attr-defined]
    return False
