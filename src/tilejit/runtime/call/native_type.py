"""A base class whose instances CPython calls through a C function pointer of their own (the vectorcall protocol).

`PyType_FromSpec` with a `__vectorcalloffset__` member is the documented way to make such a type; it is done through ctypes
because the package has no compiled part. Instances without a pointer are called like any other object, by `__call__`.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilejit.runtime.call.layout import supported

_VECTORCALL_AT = 16
STATE_AT = 24
"""Byte offset in an instance of the address that the native code finds its tables by."""
_SIZE = 32
_TYPE_FLAGS_AT = 168
_BASETYPE, _HAVE_VECTORCALL, _DEFAULT = 1 << 10, 1 << 11, 1 << 18
_TP_MEMBERS, _T_PYSSIZET, _READONLY = 72, 19, 1


class _Member(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basic_size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


# The type keeps pointers into these for as long as it lives, which is as long as the process.
_members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, _VECTORCALL_AT, _READONLY, None), _Member(None, 0, 0, 0, None))
_slots = (_Slot * 2)(_Slot(_TP_MEMBERS, ctypes.addressof(_members)), _Slot(0, None))
_spec = _Spec(b"tilejit.runtime.call.native_type.NativeCallable", _SIZE, 0, _DEFAULT | _BASETYPE | _HAVE_VECTORCALL, ctypes.addressof(_slots))


def _make_base() -> type:
    if not supported():
        return type("NativeCallable", (), {"__module__": __name__, "__slots__": ()})
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(_spec))


if TYPE_CHECKING:

    class NativeCallable:
        """Base of classes whose instances may be called natively; a plain class where that is not supported."""
else:
    NativeCallable = _make_base()


def enable(cls: type) -> None:
    """Let CPython use the instances' function pointers; a class with a `__call__` of its own does not inherit that."""
    if supported():
        ctypes.c_uint64.from_address(id(cls) + _TYPE_FLAGS_AT).value |= _HAVE_VECTORCALL


def weakly(instance: Callable[..., object]) -> Callable[..., object]:
    """Calls of an instance through Python for its own native code, which must not keep it: dropping the instance frees the code at once."""
    cls, found = type(instance), weakref.ref(instance)

    def call(*args: object, **named: object) -> object:
        instance = found()
        assert instance is not None  # whoever calls it holds it
        return cls.__call__(instance, *args, **named)

    return call


def attach(instance: object, function: int, state: int) -> None:
    """Call `instance` through the native `function`, which finds its tables at `state`; 0 goes back to `__call__`.

    Whoever holds the tables for it is in a slot of `instance`: what is in its `__dict__` anybody can replace, as `functools.update_wrapper` does.
    """
    assert supported() and isinstance(instance, NativeCallable)
    ctypes.c_int64.from_address(id(instance) + STATE_AT).value = state
    ctypes.c_int64.from_address(id(instance) + _VECTORCALL_AT).value = function
