# Written by scripts/write_stubs.py from the op table; run `make stubs` instead of editing it.
# Inside a kernel values have no Python type that a checker could follow, so results are Any; names, signatures and docs are exact.

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from tilejit import dtypes as _dtypes
from tilejit.frontend.decorators import InlineFunction as InlineFunction, function as function, inline as inline, program as program
from tilejit.frontend.text import loads as loads, loads_program as loads_program, parse as parse, parse_program as parse_program
from tilejit.jit.decorators import jit as jit
from tilejit.jit.function import JITFunction as JITFunction
from tilejit.jit.tune.function import autotune as autotune
from tilejit.types.annotations import AUTO as AUTO, Array as Array, DynVar as DynVar, MemRef as MemRef, TensorView as TensorView, TileView as TileView, Tuple as Tuple, like as like, once as once, untracked as untracked
from tilejit.types.enums import AtomicType as AtomicType, CompactMode as CompactMode, ForKind as ForKind, FunctionType as FunctionType, Level as Level, MaskPattern as MaskPattern, MemorySpace as MemorySpace, NotifyOp as NotifyOp, PadValue as PadValue, PipeType as PipeType, ReduceOp as ReduceOp, Role as Role, ScopeMode as ScopeMode, SplitMode as SplitMode, TensorLayout as TensorLayout, TileLayout as TileLayout, WaitCmp as WaitCmp

_T = TypeVar("_T")

Out: TypeAlias = Annotated[_T, "Out"]
InOut: TypeAlias = Annotated[_T, "InOut"]
constexpr: TypeAlias = Annotated[_T, "constexpr"]

class _Shaped:
    shape: tuple[int, ...]
    dtype: _dtypes.DType
    def __class_getitem__(cls, item: Any) -> Any: ...
    def __getitem__(self, window: Any) -> Any: ...
    def __setitem__(self, window: Any, value: Any) -> None: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __rmatmul__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __invert__(self) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    @property
    def T(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    def add(self, rhs: Any) -> Any: ...
    def addc(self, rhs: Any, rhs2: Any) -> Any: ...
    def addsc(self, rhs: Any, rhs2: Any) -> Any: ...
    def aic_gather(self) -> Any: ...
    def aiv_shard(self) -> Any: ...
    def all(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def amax(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def amin(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def and_(self, rhs: Any) -> Any: ...
    def ands(self, rhs: Any) -> Any: ...
    def any(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def argmax(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def argmin(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def argsort(self, axis: Any = ..., descending: Any = ...) -> Any: ...
    def assemble(self, source: Any, offset: Any, *, atomic: Any = ...) -> Any: ...
    def astype(self, target_type: Any, mode: Any = ...) -> Any: ...
    def atan(self) -> Any: ...
    def atan2(self, x: Any) -> Any: ...
    def batch_matmul(self, rhs: Any) -> Any: ...
    def bincount(self, length: Any, weights: Any = ...) -> Any: ...
    def broadcast_to(self, *args: Any) -> Any: ...
    def cast(self, target_type: Any, mode: Any = ...) -> Any: ...
    def cdiv(self, rhs: Any) -> Any: ...
    def ceil(self) -> Any: ...
    def clamp(self, low: Any, high: Any) -> Any: ...
    def clip(self, low: Any, high: Any) -> Any: ...
    def cmp(self, rhs: Any, cmp_type: Any = ...) -> Any: ...
    def cmps(self, rhs: Any, cmp_type: Any = ...) -> Any: ...
    def col_argmax(self, tmp_tile: Any = ...) -> Any: ...
    def col_argmin(self, tmp_tile: Any = ...) -> Any: ...
    def col_expand(self, rhs: Any) -> Any: ...
    def col_expand_add(self, rhs: Any) -> Any: ...
    def col_expand_div(self, rhs: Any) -> Any: ...
    def col_expand_expdif(self, rhs: Any) -> Any: ...
    def col_expand_max(self, rhs: Any) -> Any: ...
    def col_expand_min(self, rhs: Any) -> Any: ...
    def col_expand_mul(self, rhs: Any) -> Any: ...
    def col_expand_sub(self, rhs: Any) -> Any: ...
    def col_max(self) -> Any: ...
    def col_min(self) -> Any: ...
    def col_prod(self) -> Any: ...
    def col_sum(self, tmp_tile: Any = ...) -> Any: ...
    def compare(self, rhs: Any, cmp_type: Any = ...) -> Any: ...
    def complex(self, im: Any) -> Any: ...
    def concat(self, src1: Any) -> Any: ...
    def conj(self) -> Any: ...
    def cos(self) -> Any: ...
    def cummax(self, axis: Any = ...) -> Any: ...
    def cummin(self, axis: Any = ...) -> Any: ...
    def cumprod(self, axis: Any = ...) -> Any: ...
    def cumsum(self, axis: Any = ...) -> Any: ...
    def div(self, rhs: Any, high_precision: Any = ...) -> Any: ...
    def dump_tag(self) -> Any: ...
    def erf(self) -> Any: ...
    def every(self, *args: Any) -> Any: ...
    def exp(self) -> Any: ...
    def exp2(self) -> Any: ...
    def expand_clone(self, target: Any) -> Any: ...
    def expand_dims(self, axis: Any) -> Any: ...
    def expands(self, scalar: Any) -> Any: ...
    def expm1(self) -> Any: ...
    def fillpad(self, pad_value: Any = ...) -> Any: ...
    def fillpad_expand(self, shape: Any, pad_value: Any = ...) -> Any: ...
    def flip(self, axis: Any = ...) -> Any: ...
    def floor(self) -> Any: ...
    def fmod(self, rhs: Any) -> Any: ...
    def fmods(self, rhs: Any) -> Any: ...
    def full_like(self, value: Any, dtype: Any = ...) -> Any: ...
    def gather(self, dim: Any = ..., index: Any = ..., *, mask_pattern: Any = ..., output_dtype: Any = ..., kvalue: Any = ..., cmp_mode: Any = ..., out_cols: Any = ..., offset: Any = ..., count_dtype: Any = ..., fill: Any = ...) -> Any: ...
    def gather_row(self, src: Any, dst_offset: Any, src_offset: Any, shapes: Any, transpose: Any = ..., *, valid_shape: Any = ...) -> Any: ...
    def gatherb(self, offset: Any, *, output_dtype: Any = ...) -> Any: ...
    def gelu(self, approximate: Any = ...) -> Any: ...
    def gemv(self, rhs: Any, acc_phase: Any = ...) -> Any: ...
    def gemv_acc(self, lhs: Any, rhs: Any, acc_phase: Any = ...) -> Any: ...
    def gemv_bias(self, rhs: Any, bias: Any, acc_phase: Any = ...) -> Any: ...
    def histogram(self, bins: Any, low: Any, high: Any) -> Any: ...
    def imag(self) -> Any: ...
    def isnan(self) -> Any: ...
    def log(self, high_precision: Any = ...) -> Any: ...
    def log10(self) -> Any: ...
    def log1p(self) -> Any: ...
    def log2(self) -> Any: ...
    def log_softmax(self, axis: Any = ...) -> Any: ...
    def logsumexp(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def lrelu(self, slope: Any) -> Any: ...
    def matmul(self, rhs: Any, out_dtype: Any = ..., a_trans: Any = ..., b_trans: Any = ..., c_matrix_nz: Any = ...) -> Any: ...
    def matmul_acc(self, lhs: Any, rhs: Any, a_trans: Any = ..., b_trans: Any = ..., init_cond: Any = ...) -> Any: ...
    def matmul_bias(self, rhs: Any, bias: Any) -> Any: ...
    def matmul_mx(self, lhs_scale: Any, rhs: Any, rhs_scale: Any) -> Any: ...
    def matmul_mx_acc(self, lhs: Any, lhs_scale: Any, rhs: Any, rhs_scale: Any) -> Any: ...
    def matmul_mx_bias(self, lhs_scale: Any, rhs: Any, rhs_scale: Any, bias: Any) -> Any: ...
    def max(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def maximum(self, rhs: Any) -> Any: ...
    def maximums(self, rhs: Any) -> Any: ...
    def mean(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def mgather(self, idx: Any, coalesce: Any = ..., *, gather_oob: Any = ..., target_memory: Any = ..., scratch: Any = ..., valid_shape: Any = ...) -> Any: ...
    def min(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def minimum(self, rhs: Any) -> Any: ...
    def minimums(self, rhs: Any) -> Any: ...
    def move(self, target_memory: Any, blayout: Any = ..., slayout: Any = ...) -> Any: ...
    def mrgsort(self, src1: Any = ..., src2: Any = ..., src3: Any = ..., tmp: Any = ..., *, exhausted: Any = ..., block_len: Any = ...) -> Any: ...
    def mscatter(self, idx: Any, output_tensor: Any) -> Any: ...
    def mul(self, rhs: Any) -> Any: ...
    def neg(self) -> Any: ...
    def not_(self) -> Any: ...
    def ones_like(self, dtype: Any = ...) -> Any: ...
    def or_(self, rhs: Any) -> Any: ...
    def ors(self, rhs: Any) -> Any: ...
    def paged_gather(self, indices: Any, block_table: Any, block_size: Any, size: Any, max_indices: Any, *, space: Any = ..., col_off: Any = ..., is_trans: Any = ..., is_b_matrix: Any = ...) -> Any: ...
    def part_add(self, rhs: Any) -> Any: ...
    def part_max(self, rhs: Any) -> Any: ...
    def part_min(self, rhs: Any) -> Any: ...
    def part_mul(self, rhs: Any) -> Any: ...
    def permute(self, *args: Any) -> Any: ...
    def prelu(self, slope: Any, tmp: Any) -> Any: ...
    def prod(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def real(self) -> Any: ...
    def recip(self, high_precision: Any = ...) -> Any: ...
    def reinterpret_view(self, dtype: Any, *, shape: Any = ...) -> Any: ...
    def relu(self) -> Any: ...
    def rem(self, rhs: Any, tmp: Any) -> Any: ...
    def rems(self, rhs: Any, tmp: Any) -> Any: ...
    def reshape(self, *args: Any) -> Any: ...
    def row_argmax(self, tmp_tile: Any = ...) -> Any: ...
    def row_argmin(self, tmp_tile: Any = ...) -> Any: ...
    def row_expand(self, rhs: Any) -> Any: ...
    def row_expand_add(self, rhs: Any, tmp: Any = ...) -> Any: ...
    def row_expand_div(self, rhs: Any) -> Any: ...
    def row_expand_expdif(self, rhs: Any) -> Any: ...
    def row_expand_max(self, rhs: Any) -> Any: ...
    def row_expand_min(self, rhs: Any) -> Any: ...
    def row_expand_mul(self, rhs: Any) -> Any: ...
    def row_expand_sub(self, rhs: Any) -> Any: ...
    def row_max(self, tmp_tile: Any = ...) -> Any: ...
    def row_min(self, tmp_tile: Any = ...) -> Any: ...
    def row_prod(self, tmp_tile: Any = ...) -> Any: ...
    def row_sum(self, tmp_tile: Any = ...) -> Any: ...
    def rsqrt(self, high_precision: Any = ...) -> Any: ...
    def scatter(self, dim: Any = ..., index: Any = ..., src: Any = ..., *, mask_pattern: Any = ..., dst: Any = ...) -> Any: ...
    def scatter_update(self, *args: Any, **kwargs: Any) -> Any: ...
    def sel(self, lhs: Any, rhs: Any, tmp: Any) -> Any: ...
    def sels(self, src: Any, tmp: Any, scalar: Any) -> Any: ...
    def set_validshape(self, valid_rows: Any, valid_cols: Any) -> Any: ...
    def shl(self, rhs: Any) -> Any: ...
    def shls(self, rhs: Any) -> Any: ...
    def shr(self, rhs: Any) -> Any: ...
    def shrs(self, rhs: Any) -> Any: ...
    def sigmoid(self) -> Any: ...
    def silu(self) -> Any: ...
    def sin(self) -> Any: ...
    def slice(self, shape: Any, offset: Any, valid_shape: Any = ..., drop_dims: Any = ..., pad_value: Any = ..., clamp: Any = ...) -> Any: ...
    def softmax(self, axis: Any = ...) -> Any: ...
    def softplus(self) -> Any: ...
    def sort(self, axis: Any = ..., descending: Any = ...) -> Any: ...
    def sort32(self, idx: Any) -> Any: ...
    def sort_rows(self, descending: Any = ...) -> Any: ...
    def sqrt(self) -> Any: ...
    def square(self) -> Any: ...
    def squeeze(self, axis: Any = ...) -> Any: ...
    def std(self, axis: Any = ..., keepdims: Any = ..., ddof: Any = ...) -> Any: ...
    def sub(self, rhs: Any) -> Any: ...
    def subc(self, rhs: Any, rhs2: Any) -> Any: ...
    def subsc(self, rhs: Any, rhs2: Any) -> Any: ...
    def sum(self, axis: Any = ..., keepdims: Any = ...) -> Any: ...
    def tan(self) -> Any: ...
    def tanh(self) -> Any: ...
    def tfree_to_aic(self, *, split: Any = ..., id: Any = ...) -> Any: ...
    def tfree_to_aiv(self, *, split: Any = ..., id: Any = ...) -> Any: ...
    def to(self, target_type: Any, mode: Any = ...) -> Any: ...
    def topk(self, k: Any, axis: Any = ..., largest: Any = ...) -> Any: ...
    def topk_rows(self, k: Any, largest: Any = ...) -> Any: ...
    def tpush_to_aic(self, *, split: Any, id: Any = ...) -> Any: ...
    def tpush_to_aiv(self, *, split: Any, lane_stride: Any = ..., id: Any = ...) -> Any: ...
    def transpose(self, axis1: Any, axis2: Any) -> Any: ...
    def unsqueeze(self, axis: Any) -> Any: ...
    def var(self, axis: Any = ..., keepdims: Any = ..., ddof: Any = ...) -> Any: ...
    def where(self, lhs: Any, rhs: Any) -> Any: ...
    def write(self, offset: Any, value: Any) -> Any: ...
    def xor(self, rhs: Any, tmp: Any = ...) -> Any: ...
    def xors(self, rhs: Any, tmp: Any = ...) -> Any: ...
    def zeros_like(self, dtype: Any = ...) -> Any: ...

class Tensor(_Shaped):
    """A tensor in memory: `pl.Tensor[[64, M], pl.FP32]`, or bare when the call supplies shape and dtype."""
    def bind_dynamic(self, axis: int, symbol: Any) -> None: ...

class Tile(_Shaped):
    """An on-chip tile: `pl.Tile[[16, 16], pl.FP32]`."""

class Scalar(Any):
    """A number: `pl.Scalar[pl.FP32]`; it has the operators of Python's numbers."""
    def __class_getitem__(cls, item: Any) -> Any: ...

class _Blocks(AbstractContextManager[Any], Iterator[Any]): ...

RUNTIME: Any
"""In `compile` and `lower`: a number that comes with the call."""

def dynamic(name: str) -> Any:
    """A symbol for an extent that is known only in the call."""

class _DType(type, _dtypes.DType):  # type: ignore
    numpy: Any
    is_float: Any
    is_integer: Any
    is_signed: Any

class _Number(Protocol):
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __rfloordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __rmod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __rpow__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __abs__(self) -> Any: ...

class _Integer(_Number, Protocol):
    def __and__(self, other: Any, /) -> Any: ...
    def __rand__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __ror__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __rxor__(self, other: Any, /) -> Any: ...
    def __lshift__(self, other: Any, /) -> Any: ...
    def __rlshift__(self, other: Any, /) -> Any: ...
    def __rshift__(self, other: Any, /) -> Any: ...
    def __rrshift__(self, other: Any, /) -> Any: ...
    def __invert__(self) -> Any: ...
    def __index__(self) -> Any: ...

class BOOL(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class INT4(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class INT8(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class INT16(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class INT32(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class INT64(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class UINT4(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class UINT8(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class UINT16(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class UINT32(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class UINT64(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class FP4(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP8E4M3FN(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP8E5M2(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP8E8M0(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP16(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class BF16(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP32(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class FP64(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class HF4(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class HF8(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class INDEX(_Integer, Protocol, metaclass=_DType): ...  # type: ignore
class TASK_ID(_Number, Protocol, metaclass=_DType): ...  # type: ignore
class COMPLEX64(_Number, Protocol, metaclass=_DType): ...  # type: ignore

def range(start: Any, stop: Any = ..., step: Any = ..., *, init_values: Any = ...) -> Iterator[Any]:
    """A counted loop, in order."""

def parallel(start: Any, stop: Any = ..., step: Any = ..., *, init_values: Any = ...) -> Iterator[Any]:
    """A counted loop whose iterations are independent."""

def unroll(start: Any, stop: Any = ..., step: Any = ...) -> Iterator[Any]:
    """A loop expanded while compiling."""

def pipeline(start: Any, stop: Any = ..., step: Any = ..., *, stage: Any, init_values: Any = ...) -> Iterator[Any]:
    """A counted loop that may overlap its iterations."""

def while_(*, init_values: Any) -> Iterator[Any]:
    """A while loop with explicit carried values."""

def cond(condition: Any) -> None:
    """The condition of `pl.while_`, first in its body."""

def yield_(*values: Any) -> Any:
    """Hand values to the enclosing loop or branch."""

def at(level: Any, role: Any = ..., *, optimizations: Any = ..., deps: Any = ..., no_dep_args: Any = ..., dumps: Any = ..., allow_early_resolve: Any = ..., name_hint: Any = ..., windowize: Any = ...) -> AbstractContextManager[Any]:
    """A region that becomes a kernel of its own."""

def incore() -> AbstractContextManager[Any]:
    """Older spelling of `pl.at(level=pl.Level.CORE_GROUP)`."""

def spmd(core_num: Any, *, sync_start: Any = ..., name_hint: Any = ..., optimizations: Any = ..., deps: Any = ..., allow_early_resolve: Any = ..., predicate: Any = ...) -> _Blocks:
    """The same kernel on several blocks; on a grid of them with one index per extent: `for i, j in pl.spmd((m, n))`."""

def cluster(*, name_hint: Any = ...) -> AbstractContextManager[Any]:
    """Groups kernels that are scheduled together."""

def split_aiv(n: Any, *, mode: Any) -> Iterator[Any]:
    """Runs the body on two vector lanes."""

def manual_scope() -> AbstractContextManager[Any]:
    """Tasks in this scope depend only on what `deps=` says."""

def scope(*, mode: Any = ...) -> AbstractContextManager[Any]:
    """A dependency scope."""

def split(mode: Any, *, slot_num: Any = ...) -> Any:
    """Optimisation hint of `pl.at`."""

def cross_core_slot(*, slot_num: Any) -> Any:
    """Optimisation hint of `pl.at`."""

def submit(kernel: Any, *args: Any, deps: Any = ..., dumps: Any = ..., allow_early_resolve: Any = ..., predicate: Any = ...) -> Any:
    """Launch a kernel as a task."""

def spmd_submit(kernel: Any, *args: Any, core_num: Any, sync_start: Any = ..., deps: Any = ..., dumps: Any = ..., allow_early_resolve: Any = ..., predicate: Any = ...) -> Any:
    """Launch a kernel on several blocks as a task."""

def static_print(*values: Any) -> None:
    """Print while compiling."""

def static_assert(condition: Any, message: Any = ...) -> None:
    """Check while compiling."""

def func_attr(attributes: Any) -> None:
    """Attributes of the enclosing function."""

def const(value: Any, dtype: Any) -> Any:
    """A constant of a given data type."""

def print(*values: Any) -> None:
    """Print values while the kernel runs; compiled code keeps them until the call is over."""

def breakpoint() -> None:
    """Stop in the debugger; the kernel then runs line by line."""

def device_assert(condition: Any, message: Any = ...) -> None:
    """Check a condition while the kernel runs."""

class _shaped:
    @staticmethod
    def add(lhs: Any, rhs: Any) -> Any:
        """lhs + rhs for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.add(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def adds(lhs: Any, rhs: Any) -> Any:
        """lhs + rhs for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def all(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """Whether all elements of a mask hold (of numbers: are not zero), over one axis, several or all.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.all(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def amax(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The largest element over one axis, several or all; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.amax(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def amin(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The smallest element over one axis, several or all; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.amin(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def and_(lhs: Any, rhs: Any) -> Any:
        """lhs & rhs, bit by bit; of masks: where both hold.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.and_(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def ands(lhs: Any, rhs: Any) -> Any:
        """lhs & rhs, bit by bit; of masks: where both hold.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def any(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """Whether any element of a mask holds (of numbers: is not zero), over one axis, several or all.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.any(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def arange(start: Any, shape: Any = ..., dtype: Any = ..., descending: Any = ..., step: Any = ...) -> Any:
        """Numbers from `start` up, or down, `step` apart, in one row; without a shape those below `start`, from 0.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def argmax(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """Where the largest element of one axis lies, as INT32; the first of equals. Without an axis: its place among all elements in row-major order.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.argmax(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def argmin(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """Where the smallest element of one axis lies, as INT32; the first of equals. Without an axis: its place among all elements in row-major order.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.argmin(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def argsort(input: Any, axis: Any = ..., descending: Any = ...) -> Any:
        """The INT32 indices that put the elements in order along an axis; equal ones keep their order.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.argsort(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def atan(input: Any) -> Any:
        """The angle whose tangent is x, in radians, from -pi / 2 to pi / 2, for every element.

        takes: tensors and tiles of floats
        example: out[:] = pl.atan(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def atan2(y: Any, x: Any) -> Any:
        """The angle of the point (x, y) in radians, from -pi to pi, with the signs of zeros as in NumPy.

        takes: tensors and tiles of floats
        example: out[:] = pl.atan2(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def bincount(input: Any, length: Any, weights: Any = ...) -> Any:
        """How often each number from 0 to length - 1 occurs, as INT32; with weights the sum of the weights of its places.

        takes: tensors and tiles of integers
        example: out[:] = pl.bincount(pl.cast(x, pl.INT32), 6)  # x: FP32 [4, 8]
        """

    @staticmethod
    def broadcast_to(input: Any, shape: Any) -> Any:
        """The elements repeated along new axes, and along those of extent 1, until the shape is `shape`.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.broadcast_to(x[0:1], [3, 8])  # x: FP32 [4, 8]
        """

    @staticmethod
    def cdiv(lhs: Any, rhs: Any) -> Any:
        """lhs / rhs of integers, rounded up: how many blocks of rhs cover lhs.

        takes: tensors, tiles and scalars of integers
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.cdiv(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def ci(start: Any, shape: Any, dtype: Any = ..., descending: Any = ...) -> Any:
        """One row of consecutive integers from `start` up, or down.

        takes: tensors and tiles of INT16, INT32, UINT16, UINT32
        """

    @staticmethod
    def compare(lhs: Any, rhs: Any, cmp_type: Any = ...) -> Any:
        """Compare element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge) into BOOL: what a comparison is where a mask is wanted.

        takes: tensors and tiles of numbers and BOOL
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.compare(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def complex(re: Any, im: Any) -> Any:
        """The complex number of a real and an imaginary part, for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.complex(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def concat(src0: Any, src1: Any) -> Any:
        """The valid columns of src1 after those of src0.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def div(lhs: Any, rhs: Any, high_precision: Any = ...) -> Any:
        """lhs / rhs for every element; integers truncate toward zero, and a zero divisor counts as one.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.div(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def divs(lhs: Any, rhs: Any) -> Any:
        """lhs / rhs for every element; integers truncate toward zero, and a zero divisor counts as one.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def einsum(subscripts: Any, lhs: Any, rhs: Any = ...) -> Any:
        """A sum of products written with one letter per axis, as in NumPy: of two operands a matrix product, of one a reduction or another order of its axes.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.einsum("ik,jk->ij", x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def every(input: Any, steps: Any) -> Any:
        """The elements that lie `steps[axis]` apart along each axis, from the first one on; a negative step goes from the last one back.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def expand_dims(input: Any, axis: Any) -> Any:
        """One more axis of extent 1, which becomes axis `axis` of the result.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        example: out[:] = pl.expand_dims(x, 1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def expands(target: Any, scalar: Any) -> Any:
        """The scalar in the target's dtype, spread over its shape; the target's elements do not matter.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def flip(input: Any, axis: Any = ...) -> Any:
        """The elements in reverse order along one axis, several or all.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        example: out[:] = pl.flip(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def fmod(lhs: Any, rhs: Any) -> Any:
        """The remainder of lhs / rhs with the sign of the dividend.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.fmod(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def fmods(lhs: Any, rhs: Any) -> Any:
        """The remainder of lhs / rhs with the sign of the dividend.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def full(shape: Any, dtype: Any, value: Any) -> Any:
        """Every element is `value`, converted to `dtype`.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def full_like(input: Any, value: Any, dtype: Any = ...) -> Any:
        """An array of the shape of the input, and of its data type unless another is given, in which every element is `value`.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.full_like(x, 7.0)  # x: FP32 [4, 8]
        """

    @staticmethod
    def get_block_idx() -> Any:
        """The index of the running block, 0 outside pl.spmd."""

    @staticmethod
    def get_block_num() -> Any:
        """The number of blocks that run this kernel, 1 outside pl.spmd."""

    @staticmethod
    def get_subblock_idx() -> Any:
        """The vector lane of pl.split_aiv, else 0."""

    @staticmethod
    def histogram(input: Any, bins: Any, low: Any, high: Any) -> Any:
        """How many elements lie in each of `bins` equal parts of the range from low to high, as INT32; what lies outside is not counted.

        takes: tensors and tiles of floats
        example: out[:] = pl.histogram(x, 5, 1.0, 5.0)  # x: FP32 [4, 8]
        """

    @staticmethod
    def iota(shape: Any, axis: Any = ..., dtype: Any = ...) -> Any:
        """The index along an axis, for every element of an array of that shape.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def log_softmax(input: Any, axis: Any = ...) -> Any:
        """The logarithm of softmax, accurate where softmax itself is nearly zero.

        takes: tensors and tiles of floats
        example: out[:] = pl.log_softmax(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def logsumexp(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The logarithm of the sum of e**x along the axis, without overflow.

        takes: tensors and tiles of floats
        example: out[:] = pl.logsumexp(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def maximum(lhs: Any, rhs: Any) -> Any:
        """The larger of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.maximum(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def mean(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The mean over one axis, several or all, summed in FP32 where the elements are narrower; that of integers is FP32.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.mean(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def minimum(lhs: Any, rhs: Any) -> Any:
        """The smaller of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.minimum(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def mul(lhs: Any, rhs: Any) -> Any:
        """lhs * rhs for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.mul(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def muls(lhs: Any, rhs: Any) -> Any:
        """lhs * rhs for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def ones(shape: Any, dtype: Any = ...) -> Any:
        """Every element is 1.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.ones([2, 3], pl.FP32)  # x: FP32 [4, 8]
        """

    @staticmethod
    def ones_like(input: Any, dtype: Any = ...) -> Any:
        """An array of the shape of the input in which every element is 1.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.ones_like(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def or_(lhs: Any, rhs: Any) -> Any:
        """lhs | rhs, bit by bit; of masks: where either holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.or_(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def ors(lhs: Any, rhs: Any) -> Any:
        """lhs | rhs, bit by bit; of masks: where either holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def permute(input: Any, axes: Any = ...) -> Any:
        """The axes in another order: axis axes[i] of the input becomes axis i; all reversed without `axes`, as `x.T` says.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        example: out[:] = pl.permute(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def pow(lhs: Any, rhs: Any) -> Any:
        """lhs ** rhs for every element; an integer to a negative power is the truncated fraction.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.pow(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def prod(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The product over one axis, several or all; all axes at once give a scalar unless keepdims keeps them.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.prod(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def rand(seed: Any, shape: Any) -> Any:
        """Random numbers from 0 to 1, without 1, all equally likely; the same seed gives the same numbers on every platform.

        takes: tensors and tiles of FP32
        example: out[:] = pl.rand(7, [2, 3])  # x: FP32 [4, 8]
        """

    @staticmethod
    def randn(seed: Any, shape: Any) -> Any:
        """Random numbers of the normal distribution, of mean 0 and variance 1; the same seed gives the same numbers.

        takes: tensors and tiles of FP32
        example: out[:] = pl.randn(7, [2, 3])  # x: FP32 [4, 8]
        """

    @staticmethod
    def reinterpret_view(data: Any, dtype: Any, *, shape: Any = ...) -> Any:
        """The same bytes as another dtype; without a shape the last extent is rescaled.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def row_expand(target: Any, row_vec: Any) -> Any:
        """r[M, 1] spread along the rows of the target, whose elements do not matter.

        takes: tensors and tiles of numbers and BOOL
        """

    @staticmethod
    def scan(fn: Any, input: Any, second: Any = ..., third: Any = ..., fourth: Any = ..., *, axis: Any = ..., reverse: Any = ...) -> Any:
        """Running results of an associative function along an axis, from the first element on or, reversed, from the last: of one array
        fn(before, element), of several arrays fn(befores…, elements…), which gives as many values.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def scatter_update(input: Any, *args: Any, **kwargs: Any) -> Any:
        """input with row index.flat[k] (over all dims but the last) replaced by row k of src; a tensor in memory is changed itself.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def shl(lhs: Any, rhs: Any) -> Any:
        """lhs << rhs; a shift by the width or more gives 0.

        takes: tensors, tiles and scalars of integers
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.shl(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def shls(lhs: Any, rhs: Any) -> Any:
        """lhs << rhs; a shift by the width or more gives 0.

        takes: tensors, tiles and scalars of integers
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def shr(lhs: Any, rhs: Any) -> Any:
        """lhs >> rhs, keeping the sign of signed integers; a shift by the width or more gives 0 or -1.

        takes: tensors, tiles and scalars of integers
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.shr(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def shrs(lhs: Any, rhs: Any) -> Any:
        """lhs >> rhs, keeping the sign of signed integers; a shift by the width or more gives 0 or -1.

        takes: tensors, tiles and scalars of integers
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def softmax(input: Any, axis: Any = ...) -> Any:
        """e**x over its sum along the axis, without overflow.

        takes: tensors and tiles of floats
        example: out[:] = pl.softmax(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def sort(input: Any, axis: Any = ..., descending: Any = ...) -> Any:
        """The elements in order along an axis; equal ones keep their order, NaN comes last (first if descending).

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.sort(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def sort32(src: Any, idx: Any) -> Any:
        """Each block of 32 columns sorted, largest first, as (value, index) pairs.

        takes: tensors and tiles of FP16, FP32
        """

    @staticmethod
    def sort_rows(input: Any, descending: Any = ...) -> Any:
        """The elements of each row (along the last axis) in order, and the INT32 index at which each of them was.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def squeeze(input: Any, axis: Any = ...) -> Any:
        """The same elements without axes of extent 1: those that are named, or all but one of them.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        example: out[:] = pl.squeeze(x[0:1], axis=0)  # x: FP32 [4, 8]
        """

    @staticmethod
    def std(input: Any, axis: Any = ..., keepdims: Any = ..., ddof: Any = ...) -> Any:
        """The square root of the variance over one axis, several or all.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.std(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def sub(lhs: Any, rhs: Any) -> Any:
        """lhs - rhs for every element; a scalar never changes the dtype.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.sub(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def subs(lhs: Any, rhs: Any) -> Any:
        """lhs - rhs for every element; a scalar never changes the dtype.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def sum(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The sum over one axis, several or all; all axes at once give a scalar unless keepdims keeps them.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        example: out[:] = pl.sum(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def topk(input: Any, k: Any, axis: Any = ..., largest: Any = ...) -> Any:
        """The k largest elements along an axis in descending order (or the smallest in ascending order), and their INT32 indices.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.topk(x, 3)[0]  # x: FP32 [4, 8]
        """

    @staticmethod
    def topk_rows(input: Any, k: Any, largest: Any = ...) -> Any:
        """The k largest elements of each row in descending order (or the smallest in ascending order), and their INT32 indices; of equals the first.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def unsqueeze(input: Any, axis: Any) -> Any:
        """One more axis of extent 1, which becomes axis `axis` of the result.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def var(input: Any, axis: Any = ..., keepdims: Any = ..., ddof: Any = ...) -> Any:
        """The mean squared distance from the mean over one axis, several or all; the sum is divided by the number of elements less ddof.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.var(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def where(condition: Any, lhs: Any, rhs: Any) -> Any:
        """lhs where the condition is not zero, else rhs. The condition of tiles is BOOL or a mask, that of scalars BOOL, that of tensors any number.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def zeros(shape: Any, dtype: Any = ...) -> Any:
        """Every element is 0.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.zeros([2, 3], pl.FP32)  # x: FP32 [4, 8]
        """

    @staticmethod
    def zeros_like(input: Any, dtype: Any = ...) -> Any:
        """An array of the shape of the input in which every element is 0.

        takes: tensors and tiles of integers and floats
        example: out[:] = pl.zeros_like(x)  # x: FP32 [4, 8]
        """

class _tensor(_shaped):
    @staticmethod
    def abs(input: Any) -> Any:
        """The magnitude of every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.abs(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def alloc(memory_space: Any, size: Any) -> Any:
        """An allocation token in printed programs."""

    @staticmethod
    def assemble(target: Any, source: Any, offset: Any, *, atomic: Any = ...) -> Any:
        """target with source written at `offset`: the valid region of a tensor, the whole of a tile.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def atomic_add(tensor: Any, indices: Any, value: Any) -> Any:
        """Add to one element of a tensor that other blocks may change meanwhile; evaluates to the element before."""

    @staticmethod
    def atomic_and(tensor: Any, indices: Any, value: Any) -> Any:
        """Keep those bits of one element that the value has too; evaluates to the element before."""

    @staticmethod
    def atomic_cas(tensor: Any, indices: Any, expected: Any, value: Any) -> Any:
        """Put the value in the place of one element if that is `expected`; evaluates to the element before."""

    @staticmethod
    def atomic_exchange(tensor: Any, indices: Any, value: Any) -> Any:
        """Put the value in the place of one element; evaluates to the element before."""

    @staticmethod
    def atomic_max(tensor: Any, indices: Any, value: Any) -> Any:
        """Make one element the larger of itself and the value; evaluates to the element before. NaN wins."""

    @staticmethod
    def atomic_min(tensor: Any, indices: Any, value: Any) -> Any:
        """Make one element the smaller of itself and the value; evaluates to the element before. NaN wins."""

    @staticmethod
    def atomic_or(tensor: Any, indices: Any, value: Any) -> Any:
        """Set the bits of the value in one element; evaluates to the element before."""

    @staticmethod
    def atomic_xor(tensor: Any, indices: Any, value: Any) -> Any:
        """Turn the bits of the value over in one element; evaluates to the element before."""

    @staticmethod
    def cast(input: Any, target_type: Any, mode: Any = ...) -> Any:
        """x as another dtype. Modes (name or number): none and rint round halves to even, round halves away from zero, floor, ceil,
        trunc toward zero, odd to the odd neighbour; they apply from float to integer and to narrower floats. Float to integer saturates
        and maps NaN to 0; integers wrap; integers to float round to nearest even; integers and FP64 go to FP16 and narrower through FP32.

        takes: tensors, tiles and scalars of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def ceil(input: Any) -> Any:
        """The smallest whole number not below x, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.ceil(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def clamp(input: Any, low: Any, high: Any) -> Any:
        """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def clip(input: Any, low: Any, high: Any) -> Any:
        """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def cmp(lhs: Any, rhs: Any, cmp_type: Any = ...) -> Any:
        """Compare element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge): 0 or 1 in the promoted dtype; of scalars a BOOL.

        takes: tensors and scalars of numbers and BOOL
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.cmp(x, x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def col_argmax(input: Any) -> Any:
        """The row of the largest element of each column, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_argmin(input: Any) -> Any:
        """The row of the smallest element of each column, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_expand(tensor: Any, col_vec: Any) -> Any:
        """c[1, N] spread along the columns of the target, whose elements do not matter.

        takes: tensors and tiles of numbers and BOOL
        """

    @staticmethod
    def col_expand_add(tensor: Any, col_vec: Any) -> Any:
        """x + c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_div(tensor: Any, col_vec: Any) -> Any:
        """x / c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_expdif(tensor: Any, col_vec: Any) -> Any:
        """e**(x - c) with c[1, N] spread along each column.

        takes: tensors and tiles of floats
        """

    @staticmethod
    def col_expand_max(tensor: Any, col_vec: Any) -> Any:
        """The larger of x and c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_min(tensor: Any, col_vec: Any) -> Any:
        """The smaller of x and c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_mul(tensor: Any, col_vec: Any) -> Any:
        """x * c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_sub(tensor: Any, col_vec: Any) -> Any:
        """x - c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_max(input: Any) -> Any:
        """The largest element of each column.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, 1, N]
        example: out[:] = pl.col_max(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def col_min(input: Any) -> Any:
        """The smallest element of each column.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, 1, N]
        example: out[:] = pl.col_min(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def col_prod(input: Any) -> Any:
        """The product of each column.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        example: out[:] = pl.col_prod(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def col_sum(input: Any) -> Any:
        """The sum of each column.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def conj(input: Any) -> Any:
        """The number with the other sign of its imaginary part, for every element.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.conj(x)  # x: COMPLEX64 [4, 8]
        """

    @staticmethod
    def cos(input: Any) -> Any:
        """The cosine of every element, in radians; FP32 and FP64 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.cos(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def create(shape: Any, dtype: Any, layout: Any = ..., manual_dep: Any = ..., init_value: Any = ...) -> Any:
        """A new tensor, uninitialised unless `init_value` is given."""

    @staticmethod
    def create_l1(shape: Any, dtype: Any, transpose: Any = ...) -> Any:
        """A new tensor that lives in on-chip memory on Ascend; otherwise as create_tensor."""

    @staticmethod
    def cummax(input: Any, axis: Any = ...) -> Any:
        """The largest of all elements along the axis up to each of them; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        example: out[:] = pl.cummax(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def cummin(input: Any, axis: Any = ...) -> Any:
        """The smallest of all elements along the axis up to each of them; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        example: out[:] = pl.cummin(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def cumprod(input: Any, axis: Any = ...) -> Any:
        """The product of all elements along the axis up to each of them; integers wrap.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        example: out[:] = pl.cumprod(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def cumsum(input: Any, axis: Any = ...) -> Any:
        """The sum of all elements along the axis up to each of them; integers wrap.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        example: out[:] = pl.cumsum(x, axis=1)  # x: FP32 [4, 8]
        """

    @staticmethod
    def dim(tensor: Any, axis: Any) -> Any:
        """The extent of an axis, as an INDEX scalar."""

    @staticmethod
    def dump_tag(tensor: Any) -> Any:
        """Marks a tensor for a run-time dump."""

    @staticmethod
    def erf(input: Any) -> Any:
        """The error function of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.erf(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def exp(input: Any) -> Any:
        """e**x for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.exp(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def exp2(input: Any) -> Any:
        """2**x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.exp2(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def expand_clone(src: Any, target: Any) -> Any:
        """src spread over the shape of target, whose elements do not matter.

        takes: tensors of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def expm1(input: Any) -> Any:
        """e**x - 1 for every element, accurate for small x.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.expm1(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def fillpad(tensor: Any, pad_value: Any = ...) -> Any:
        """The same elements with everything outside the valid region filled by zero or the dtype's extremes (infinities for floats).

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def fillpad_expand(tensor: Any, shape: Any, pad_value: Any = ...) -> Any:
        """The valid region in the corner of a larger value, the rest filled.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def floor(input: Any) -> Any:
        """The largest whole number not above x, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.floor(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def gather(input: Any, dim: Any = ..., index: Any = ..., *, mask_pattern: Any = ..., output_dtype: Any = ..., kvalue: Any = ..., cmp_mode: Any = ..., out_cols: Any = ..., offset: Any = ..., count_dtype: Any = ..., fill: Any = ...) -> Any:
        """Elements by index along `dim` (with `fill` an index outside gives it, and is no error), columns by pattern, or (indices, counts) of the columns of each row that compare with `kvalue`:
        ascending, plus `offset`, at most `out_cols` of them, undefined past the count.

        takes: tensors of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gather_row(acc: Any, src: Any, dst_offset: Any, src_offset: Any, shapes: Any, transpose: Any = ..., *, valid_shape: Any = ...) -> Any:
        """dst with a window of the tensor src written at `dst_offset`, transposed on request.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gelu(input: Any, approximate: Any = ...) -> Any:
        """x times the part of the normal distribution below x, for every element; approximate='tanh' is the usual cheaper form.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.gelu(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def imag(input: Any) -> Any:
        """The imaginary part of every element, as FP32.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.imag(x)  # x: COMPLEX64 [4, 8]
        """

    @staticmethod
    def isnan(input: Any) -> Any:
        """Whether each element is NaN, as BOOL.

        takes: tensors, tiles and scalars of floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.isnan(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def log(input: Any, high_precision: Any = ...) -> Any:
        """The natural logarithm of every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.log(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def log10(input: Any) -> Any:
        """The logarithm to base 10 of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.log10(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def log1p(input: Any) -> Any:
        """log(1 + x) for every element, accurate for small x.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.log1p(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def log2(input: Any) -> Any:
        """The logarithm to base 2 of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.log2(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def lrelu(input: Any, slope: Any) -> Any:
        """x where it is positive, else slope * x; the slope is a scalar.

        takes: tensors and tiles of floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def matmul(lhs: Any, rhs: Any, out_dtype: Any = ..., a_trans: Any = ..., b_trans: Any = ..., c_matrix_nz: Any = ...) -> Any:
        """lhs @ rhs. Tensors: the promoted dtype unless `out_dtype` is given, leading dims are batches and broadcast, vectors may be 1-D
        (two of them give [1]). Tiles: 2-D, of one dtype, FP32 (FP64 of FP64) or INT32 out.

        takes: tensors and tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def matmul_acc(acc: Any, lhs: Any, rhs: Any, a_trans: Any = ..., b_trans: Any = ..., init_cond: Any = ...) -> Any:
        """acc + lhs @ rhs in FP32 (FP64 for FP64) or INT32; where `init_cond` is true, lhs @ rhs alone.

        takes: tensors and tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def max(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The largest element over one axis, several or all; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        """

    @staticmethod
    def min(input: Any, axis: Any = ..., keepdims: Any = ...) -> Any:
        """The smallest element over one axis, several or all; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the axes that are reduced go, or have extent 1 with keepdims=True; all of them at once give a scalar
        """

    @staticmethod
    def mrgsort(src0: Any, src1: Any = ..., src2: Any = ..., src3: Any = ..., *, exhausted: Any = ..., block_len: Any = ...) -> Any:
        """One list: each four sorted runs of `block_len` columns become one. Several: two to four sorted lists become one.

        takes: tensors and tiles of FP16, FP32
        """

    @staticmethod
    def neg(input: Any) -> Any:
        """-x for every element; unsigned integers wrap.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.neg(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def no_dep(tensor: Any) -> Any:
        """The same tensor, left out of automatic dependency tracking."""

    @staticmethod
    def not_(input: Any) -> Any:
        """~x, bit by bit; of a mask: where it does not hold.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.not_(x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def paged_gather(src: Any, indices: Any, block_table: Any, block_size: Any, size: Any, max_indices: Any, *, space: Any = ..., col_off: Any = ..., is_trans: Any = ..., is_b_matrix: Any = ...) -> Any:
        """Rows of a paged pool: logical row i lies in row block_table[i // block_size] * block_size + i % block_size; columns from
        `col_off`. The result has `max_indices` rows, valid as far as there are indices.

        takes: tensors of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def part_add(lhs: Any, rhs: Any) -> Any:
        """lhs + rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_max(lhs: Any, rhs: Any) -> Any:
        """The larger of lhs and rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_min(lhs: Any, rhs: Any) -> Any:
        """The smaller of lhs and rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_mul(lhs: Any, rhs: Any) -> Any:
        """lhs * rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def random(key0: Any, key1: Any, counter0: Any, counter1: Any, counter2: Any, counter3: Any, shape: Any, dtype: Any = ..., rounds: Any = ...) -> Any:
        """Random bits from Philox 4x32: element e of the row-major shape is word e % 4 of the counter (counter0, counter1 as one 64-bit
        number) + e // 4, with counter2, counter3 above it and (key0, key1) as key.

        takes: tensors and tiles of INT32, UINT32
        """

    @staticmethod
    def read(tensor: Any, indices: Any) -> Any:
        """One element as a scalar, by one index per dim or one flat index."""

    @staticmethod
    def real(input: Any) -> Any:
        """The real part of every element, as FP32.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.real(x)  # x: COMPLEX64 [4, 8]
        """

    @staticmethod
    def recip(input: Any, high_precision: Any = ...) -> Any:
        """1 / x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.recip(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def relu(input: Any) -> Any:
        """max(x, 0) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.relu(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def reshape(tensor: Any, shape: Any) -> Any:
        """The same elements in row-major order with another shape; a partial valid region must stay a box at the origin.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def round(input: Any) -> Any:
        """The nearest whole number, halves to even, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.round(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def row_argmax(input: Any) -> Any:
        """The column of the largest element of each row, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_argmin(input: Any) -> Any:
        """The column of the smallest element of each row, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_expand_add(tensor: Any, row_vec: Any) -> Any:
        """x + r with r[M, 1] spread along each row; a tile r of one 32-byte block per row is repeated along it instead.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_div(tensor: Any, row_vec: Any) -> Any:
        """x / r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_expdif(tensor: Any, row_vec: Any) -> Any:
        """e**(x - r) with r[M, 1] spread along each row.

        takes: tensors and tiles of floats
        """

    @staticmethod
    def row_expand_max(tensor: Any, row_vec: Any) -> Any:
        """The larger of x and r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_min(tensor: Any, row_vec: Any) -> Any:
        """The smaller of x and r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_mul(tensor: Any, row_vec: Any) -> Any:
        """x * r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_sub(tensor: Any, row_vec: Any) -> Any:
        """x - r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_max(input: Any) -> Any:
        """The largest element of each row.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_min(input: Any) -> Any:
        """The smallest element of each row.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_prod(input: Any) -> Any:
        """The product of each row.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_sum(input: Any) -> Any:
        """The sum of each row.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def rsqrt(input: Any, high_precision: Any = ...) -> Any:
        """1 / sqrt(x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.rsqrt(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def scatter(input: Any, dim: Any = ..., index: Any = ..., src: Any = ..., *, mask_pattern: Any = ..., dst: Any = ...) -> Any:
        """input with src's elements at the columns that index names, or dst with input in the columns that a pattern selects.

        takes: tensors of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def set_validshape(tensor: Any, valid_rows: Any, valid_cols: Any) -> Any:
        """The same elements, valid in the given rows and columns; cells that were not valid before have undefined content.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def sigmoid(input: Any) -> Any:
        """1 / (1 + e**-x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.sigmoid(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def silu(input: Any) -> Any:
        """x / (1 + e**-x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.silu(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def sin(input: Any) -> Any:
        """The sine of every element, in radians; FP32 and FP64 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.sin(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def slice(tensor: Any, shape: Any, offset: Any, valid_shape: Any = ..., drop_dims: Any = ..., pad_value: Any = ..., clamp: Any = ...) -> Any:
        """The window of `shape` at `offset`; `pad_value` fills the cells of the window outside its valid region, which stays as it is.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def softplus(input: Any) -> Any:
        """log(1 + e**x) for every element, accurate and without overflow.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.softplus(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def sqrt(input: Any) -> Any:
        """The square root of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.sqrt(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def square(input: Any) -> Any:
        """x * x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.square(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def tan(input: Any) -> Any:
        """The tangent of every element, in radians; FP32 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.tan(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def tanh(input: Any) -> Any:
        """The hyperbolic tangent of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.tanh(x)  # x: FP32 [4, 8]
        """

    @staticmethod
    def transpose(tensor: Any, axis1: Any, axis2: Any) -> Any:
        """Two axes swapped; negative axes count from the end.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def view(tensor: Any, shape: Any = ..., valid_shape: Any = ..., *, layout: Any = ...) -> Any:
        """The same memory with another shape or layout."""

    @staticmethod
    def write(tensor: Any, indices: Any, value: Any) -> Any:
        """dst with one element replaced, by one index per dim (the front end also takes one flat index).

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def xor(lhs: Any, rhs: Any) -> Any:
        """lhs ^ rhs, bit by bit; of masks: where one holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def xors(lhs: Any, rhs: Any) -> Any:
        """lhs ^ rhs, bit by bit; of masks: where one holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

tensor: type[_tensor]

class _tile(_shaped):
    from tilejit.types.enums import MaskPattern as MaskPattern

    @staticmethod
    def abs(tile: Any) -> Any:
        """The magnitude of every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def addc(lhs: Any, rhs: Any, rhs2: Any) -> Any:
        """lhs + rhs + rhs2 for every element, FP16 and BF16 rounded once.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def addsc(lhs: Any, rhs: Any, rhs2: Any) -> Any:
        """lhs + rhs + rhs2 for every element, FP16 and BF16 rounded once.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def aic_gather(x: Any) -> Any:
        """A tile of the vector core on the cube core.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def aiv_shard(x: Any) -> Any:
        """A tile of the cube core on the vector core: the half of the running lane inside a pl.split_aiv that divides.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def alloc(memory_space: Any, size: Any, *, pinned: Any = ...) -> Any:
        """An allocation token in printed programs."""

    @staticmethod
    def assemble(target: Any, source: Any, offset: Any) -> Any:
        """target with source written at `offset`: the valid region of a tensor, the whole of a tile.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def batch_matmul(lhs: Any, rhs: Any) -> Any:
        """lhs @ rhs for each batch of tiles; batches broadcast.

        takes: tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def batch_matmul_acc(acc: Any, lhs: Any, rhs: Any) -> Any:
        """acc + lhs @ rhs for each batch of tiles; acc is not broadcast.

        takes: tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def cast(tile: Any, target_type: Any, mode: Any = ...) -> Any:
        """x as another dtype. Modes (name or number): none and rint round halves to even, round halves away from zero, floor, ceil,
        trunc toward zero, odd to the odd neighbour; they apply from float to integer and to narrower floats. Float to integer saturates
        and maps NaN to 0; integers wrap; integers to float round to nearest even; integers and FP64 go to FP16 and narrower through FP32.

        takes: tensors, tiles and scalars of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def ceil(tile: Any) -> Any:
        """The smallest whole number not below x, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def clamp(tile: Any, low: Any, high: Any) -> Any:
        """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def clip(tile: Any, low: Any, high: Any) -> Any:
        """The nearest number to x that is at least low and at most high; high wins where they cross, and NaN stays.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def cmp(lhs: Any, rhs: Any, cmp_type: Any = ...) -> Any:
        """Compare tiles element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge) into a packed mask for sel and sels.

        takes: tiles of numbers and BOOL
        """

    @staticmethod
    def cmps(lhs: Any, rhs: Any, cmp_type: Any = ...) -> Any:
        """Compare tiles element by element (0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge) into a packed mask for sel and sels.

        takes: tiles of numbers and BOOL
        """

    @staticmethod
    def col_argmax(tile: Any, tmp_tile: Any = ...) -> Any:
        """The row of the largest element of each column, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_argmin(tile: Any, tmp_tile: Any = ...) -> Any:
        """The row of the smallest element of each column, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_expand(target: Any, col_vec: Any) -> Any:
        """c[1, N] spread along the columns of the target, whose elements do not matter.

        takes: tensors and tiles of numbers and BOOL
        """

    @staticmethod
    def col_expand_add(tile: Any, col_vec: Any) -> Any:
        """x + c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_div(tile: Any, col_vec: Any) -> Any:
        """x / c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_expdif(tile: Any, col_vec: Any) -> Any:
        """e**(x - c) with c[1, N] spread along each column.

        takes: tensors and tiles of floats
        """

    @staticmethod
    def col_expand_max(tile: Any, col_vec: Any) -> Any:
        """The larger of x and c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_min(tile: Any, col_vec: Any) -> Any:
        """The smaller of x and c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_mul(tile: Any, col_vec: Any) -> Any:
        """x * c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_expand_sub(tile: Any, col_vec: Any) -> Any:
        """x - c with c[1, N] spread along each column.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def col_max(tile: Any) -> Any:
        """The largest element of each column.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_min(tile: Any) -> Any:
        """The smallest element of each column.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_prod(tile: Any) -> Any:
        """The product of each column.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def col_sum(tile: Any, tmp_tile: Any = ...) -> Any:
        """The sum of each column.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: […, M, N] gives […, 1, N]
        """

    @staticmethod
    def conj(tile: Any) -> Any:
        """The number with the other sign of its imaginary part, for every element.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def cos(tile: Any) -> Any:
        """The cosine of every element, in radians; FP32 and FP64 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def create(shape: Any, dtype: Any, target_memory: Any = ..., transpose: Any = ..., *, flat_layout: Any = ...) -> Any:
        """A tile of undefined content.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def cummax(tile: Any, axis: Any = ...) -> Any:
        """The largest of all elements along the axis up to each of them; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        """

    @staticmethod
    def cummin(tile: Any, axis: Any = ...) -> Any:
        """The smallest of all elements along the axis up to each of them; NaN wins.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        """

    @staticmethod
    def cumprod(tile: Any, axis: Any = ...) -> Any:
        """The product of all elements along the axis up to each of them; integers wrap.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        """

    @staticmethod
    def cumsum(tile: Any, axis: Any = ...) -> Any:
        """The sum of all elements along the axis up to each of them; integers wrap.

        takes: tensors and tiles of integers and floats
        shapes: the result has the shape of the input
        """

    @staticmethod
    def erf(tile: Any) -> Any:
        """The error function of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def exp(tile: Any) -> Any:
        """e**x for every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def exp2(tile: Any) -> Any:
        """2**x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def expm1(tile: Any) -> Any:
        """e**x - 1 for every element, accurate for small x.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def extract(src: Any, index_row: Any, index_col: Any, shape: Any, *, target_memory: Any) -> Any:
        """A copy of a 2-D part of a tile in another memory space.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def fillpad(tile: Any, pad_value: Any = ...) -> Any:
        """The same elements with everything outside the valid region filled by zero or the dtype's extremes (infinities for floats).

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def fillpad_expand(tile: Any, shape: Any, pad_value: Any = ...) -> Any:
        """The valid region in the corner of a larger value, the rest filled.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def fillpad_inplace(tile: Any, pad_value: Any = ...) -> Any:
        """The same elements with everything outside the valid region filled by zero or the dtype's extremes (infinities for floats).

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def floor(tile: Any) -> Any:
        """The largest whole number not above x, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def gather(src: Any, indices: Any, tmp: Any) -> Any:
        """Elements of src by flat row-major index.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gather_compare(src: Any, kvalue: Any, tmp: Any, *, cmp_mode: Any = ..., offset: Any = ..., out_cols: Any, count_dtype: Any = ...) -> Any:
        """(indices, counts) of the columns of each row that compare with `kvalue`: ascending, plus `offset`, at most `out_cols` of them.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gather_mask(src: Any, mask_pattern: Any, *, output_dtype: Any = ...) -> Any:
        """The columns that a pattern selects; `output_dtype` reads their bits as another dtype of the same width.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gather_row(dst: Any, src: Any, dst_offset: Any, src_offset: Any, shapes: Any, transpose: Any = ..., *, valid_shape: Any = ...) -> Any:
        """dst with a window of the tensor src written at `dst_offset`, transposed on request.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def gatherb(src: Any, offset: Any, *, output_dtype: Any = ...) -> Any:
        """32-byte blocks of src by byte offset, side by side.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX
        """

    @staticmethod
    def gelu(tile: Any, approximate: Any = ...) -> Any:
        """x times the part of the normal distribution below x, for every element; approximate='tanh' is the usual cheaper form.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def gemv(lhs: Any, rhs: Any, acc_phase: Any = ...) -> Any:
        """The vector lhs [1, K] times rhs [K, N].

        takes: tiles of INT8, FP16, BF16, FP32, FP64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def gemv_acc(acc: Any, lhs: Any, rhs: Any, acc_phase: Any = ...) -> Any:
        """acc plus the vector lhs [1, K] times rhs [K, N].

        takes: tiles of INT8, FP16, BF16, FP32, FP64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def gemv_bias(lhs: Any, rhs: Any, bias: Any, acc_phase: Any = ...) -> Any:
        """The vector lhs [1, K] times rhs [K, N], plus bias [1, N].

        takes: tiles of INT8, FP16, BF16, FP32, FP64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def imag(tile: Any) -> Any:
        """The imaginary part of every element, as FP32.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def isnan(tile: Any) -> Any:
        """Whether each element is NaN, as BOOL.

        takes: tensors, tiles and scalars of floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def load(tensor: Any, offsets: Any, shapes: Any, valid_shape: Any = ..., target_memory: Any = ..., clamp: Any = ..., pad: Any = ...) -> Any:
        """A tile snapshot of the window of a tensor at `offsets`; `valid_shape` narrows it, `clamp` shrinks it to the part inside, with `pad` it may
        begin before the tensor and end behind it, and what lies outside is `pad`.
        """

    @staticmethod
    def log(tile: Any, high_precision: Any = ...) -> Any:
        """The natural logarithm of every element.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def log10(tile: Any) -> Any:
        """The logarithm to base 10 of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def log1p(tile: Any) -> Any:
        """log(1 + x) for every element, accurate for small x.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def log2(tile: Any) -> Any:
        """The logarithm to base 2 of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def lrelu(tile: Any, slope: Any) -> Any:
        """x where it is positive, else slope * x; the slope is a scalar.

        takes: tensors and tiles of floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def matmul(lhs: Any, rhs: Any, out_dtype: Any = ...) -> Any:
        """lhs @ rhs. Tensors: the promoted dtype unless `out_dtype` is given, leading dims are batches and broadcast, vectors may be 1-D
        (two of them give [1]). Tiles: 2-D, of one dtype, FP32 (FP64 of FP64) or INT32 out.

        takes: tensors and tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def matmul_acc(acc: Any, lhs: Any, rhs: Any, init_cond: Any = ...) -> Any:
        """acc + lhs @ rhs in FP32 (FP64 for FP64) or INT32; where `init_cond` is true, lhs @ rhs alone.

        takes: tensors and tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def matmul_bias(lhs: Any, rhs: Any, bias: Any) -> Any:
        """lhs @ rhs + bias, with bias [1, N] in the accumulator's dtype.

        takes: tiles of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP8E4M3FN, FP8E5M2, FP16, BF16, FP32, FP64, INDEX
        shapes: [M, K] and [K, N] give [M, N]
        """

    @staticmethod
    def matmul_mx(lhs: Any, lhs_scale: Any, rhs: Any, rhs_scale: Any) -> Any:
        """lhs @ rhs in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N].

        takes: tiles of FP4, FP8E4M3FN, FP8E5M2
        """

    @staticmethod
    def matmul_mx_acc(acc: Any, lhs: Any, lhs_scale: Any, rhs: Any, rhs_scale: Any) -> Any:
        """acc + lhs @ rhs in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N].

        takes: tiles of FP4, FP8E4M3FN, FP8E5M2
        """

    @staticmethod
    def matmul_mx_bias(lhs: Any, lhs_scale: Any, rhs: Any, rhs_scale: Any, bias: Any) -> Any:
        """lhs @ rhs + bias [1, N] in FP32, with lhs_scale [M, K/32] and rhs_scale [K/32, N].

        takes: tiles of FP4, FP8E4M3FN, FP8E5M2
        """

    @staticmethod
    def max(lhs: Any, rhs: Any) -> Any:
        """The larger of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def maximums(lhs: Any, rhs: Any) -> Any:
        """The larger of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def mgather(mem: Any, idx: Any, coalesce: Any = ..., *, gather_oob: Any = ..., target_memory: Any = ..., scratch: Any = ..., valid_shape: Any = ...) -> Any:
        """Rows ("row") or elements ("elem", flat index) of a tensor. Indices outside are an error ("undefined"), or count as unsigned and
        become the last ("clamp"), wrap around ("wrap") or give zeros ("zero").

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def min(lhs: Any, rhs: Any) -> Any:
        """The smaller of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def minimums(lhs: Any, rhs: Any) -> Any:
        """The smaller of lhs and rhs for every element; NaN wins.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def move(tile: Any, target_memory: Any, blayout: Any = ..., slayout: Any = ...) -> Any:
        """The same tile in another on-chip memory space.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def mrgsort(src0: Any, src1: Any = ..., src2: Any = ..., src3: Any = ..., tmp: Any = ..., exhausted: Any = ..., *, block_len: Any = ...) -> Any:
        """One list: each four sorted runs of `block_len` columns become one. Several: two to four sorted lists become one.

        takes: tensors and tiles of FP16, FP32
        """

    @staticmethod
    def mscatter(src: Any, idx: Any, output_tensor: Any) -> Any:
        """Write src's elements into a tensor at flat row-major indices; evaluates to that tensor. Of equal indices the last wins.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def neg(tile: Any) -> Any:
        """-x for every element; unsigned integers wrap.

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def not_(tile: Any) -> Any:
        """~x, bit by bit; of a mask: where it does not hold.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def part_add(src0: Any, src1: Any) -> Any:
        """lhs + rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_max(src0: Any, src1: Any) -> Any:
        """The larger of lhs and rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_min(src0: Any, src1: Any) -> Any:
        """The smaller of lhs and rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def part_mul(src0: Any, src1: Any) -> Any:
        """lhs * rhs where both are valid, lhs elsewhere.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def prelu(tile: Any, slope: Any, tmp: Any) -> Any:
        """x where it is positive, else slope * x; the slope is a tile of the same shape.

        takes: tiles of FP16, FP32, FP64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def random(key0: Any, key1: Any, counter0: Any, counter1: Any, counter2: Any, counter3: Any, shape: Any, valid_shape: Any = ..., dtype: Any = ..., rounds: Any = ...) -> Any:
        """Random bits from Philox 4x32: element e of the row-major shape is word e % 4 of the counter (counter0, counter1 as one 64-bit
        number) + e // 4, with counter2, counter3 above it and (key0, key1) as key.

        takes: tensors and tiles of INT32, UINT32
        """

    @staticmethod
    def read(tile: Any, indices: Any) -> Any:
        """One element as a scalar, by one index per dim or one flat index."""

    @staticmethod
    def real(tile: Any) -> Any:
        """The real part of every element, as FP32.

        takes: tensors, tiles and scalars of COMPLEX64
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def recip(tile: Any, high_precision: Any = ...) -> Any:
        """1 / x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def relu(tile: Any) -> Any:
        """max(x, 0) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def rem(lhs: Any, rhs: Any, tmp: Any) -> Any:
        """The remainder of lhs / rhs with the sign of the divisor.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def rems(lhs: Any, rhs: Any, tmp: Any) -> Any:
        """The remainder of lhs / rhs with the sign of the divisor.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def reshape(tile: Any, shape: Any) -> Any:
        """The same elements in row-major order with another shape; a partial valid region must stay a box at the origin.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def round(tile: Any) -> Any:
        """The nearest whole number, halves to even, in x's dtype.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def row_argmax(tile: Any, tmp_tile: Any = ...) -> Any:
        """The column of the largest element of each row, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_argmin(tile: Any, tmp_tile: Any = ...) -> Any:
        """The column of the smallest element of each row, as INT32; the first of equals.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_expand_add(tile: Any, row_vec: Any, tmp: Any = ...) -> Any:
        """x + r with r[M, 1] spread along each row; a tile r of one 32-byte block per row is repeated along it instead.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_div(tile: Any, row_vec: Any) -> Any:
        """x / r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_expdif(tile: Any, row_vec: Any) -> Any:
        """e**(x - r) with r[M, 1] spread along each row.

        takes: tensors and tiles of floats
        """

    @staticmethod
    def row_expand_max(tile: Any, row_vec: Any) -> Any:
        """The larger of x and r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_min(tile: Any, row_vec: Any) -> Any:
        """The smaller of x and r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_mul(tile: Any, row_vec: Any) -> Any:
        """x * r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_expand_sub(tile: Any, row_vec: Any) -> Any:
        """x - r with r[M, 1] spread along each row.

        takes: tensors and tiles of integers and floats
        """

    @staticmethod
    def row_max(tile: Any, tmp_tile: Any = ...) -> Any:
        """The largest element of each row.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_min(tile: Any, tmp_tile: Any = ...) -> Any:
        """The smallest element of each row.

        takes: tensors and tiles of numbers and BOOL
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_prod(tile: Any, tmp_tile: Any = ...) -> Any:
        """The product of each row.

        takes: tensors and tiles of integers and floats
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def row_sum(tile: Any, tmp_tile: Any = ...) -> Any:
        """The sum of each row.

        takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        shapes: […, M, N] gives […, M, 1]
        """

    @staticmethod
    def rsqrt(tile: Any, tmp: Any = ...) -> Any:
        """1 / sqrt(x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def scatter(dst: Any, src: Any, indexes: Any) -> Any:
        """dst with src's elements at flat row-major indices.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def scatter_mask(dst: Any, src: Any, mask_pattern: Any) -> Any:
        """dst with src in the columns that a pattern selects.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def sel(mask: Any, lhs: Any, rhs: Any, tmp: Any) -> Any:
        """lhs where the mask has a one, else rhs.

        takes: tiles of integers and floats
        """

    @staticmethod
    def sels(mask: Any, src: Any, tmp: Any, scalar: Any) -> Any:
        """src where the mask has a one, else the scalar in src's dtype (integers modulo their width).

        takes: tiles of INT8, INT16, INT32, UINT8, UINT16, UINT32, FP16, FP32, FP64
        """

    @staticmethod
    def set_validshape(tile: Any, valid_rows: Any, valid_cols: Any) -> Any:
        """The same elements, valid in the given rows and columns; cells that were not valid before have undefined content.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def sigmoid(tile: Any) -> Any:
        """1 / (1 + e**-x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def silu(tile: Any) -> Any:
        """x / (1 + e**-x) for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def sin(tile: Any) -> Any:
        """The sine of every element, in radians; FP32 and FP64 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, FP64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def slice(tile: Any, shape: Any, offset: Any, valid_shape: Any = ..., drop_dims: Any = ..., pad_value: Any = ...) -> Any:
        """The window of `shape` at `offset`; `pad_value` fills the cells of the window outside its valid region, which stays as it is.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def softplus(tile: Any) -> Any:
        """log(1 + e**x) for every element, accurate and without overflow.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def sqrt(tile: Any) -> Any:
        """The square root of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def square(tile: Any) -> Any:
        """x * x for every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def store(tile: Any, offsets: Any, output_tensor: Any, shapes: Any = ..., *, atomic: Any = ..., clamp: Any = ...) -> Any:
        """Write the valid region of a tile into a tensor at `offsets`; evaluates to that tensor. `atomic` adds instead, `clamp` leaves out what lies
        outside the tensor.
        """

    @staticmethod
    def subc(lhs: Any, rhs: Any, rhs2: Any) -> Any:
        """lhs - rhs - rhs2 for every element, FP16 and BF16 rounded once.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def subsc(lhs: Any, rhs: Any, rhs2: Any) -> Any:
        """lhs - rhs - rhs2 for every element, FP16 and BF16 rounded once.

        takes: tiles of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def tan(tile: Any) -> Any:
        """The tangent of every element, in radians; FP32 only (integer tensors become FP32).

        takes: tensors, tiles and scalars of INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def tanh(tile: Any) -> Any:
        """The hyperbolic tangent of every element.

        takes: tensors, tiles and scalars of integers and floats
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

    @staticmethod
    def transpose(tile: Any, axis1: Any, axis2: Any, tmp_tile: Any = ...) -> Any:
        """Two axes swapped; negative axes count from the end.

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def transpose_view(tile: Any) -> Any:
        """The last two axes swapped.

        takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def tri(diagonal: Any, shape: Any, valid_shape: Any = ..., dtype: Any = ..., upper: Any = ...) -> Any:
        """1 in the lower triangle (column <= row + diagonal) or the upper one (column >= row + diagonal), else 0.

        takes: tiles of integers and floats
        """

    @staticmethod
    def write(tile: Any, indices: Any, value: Any) -> Any:
        """dst with one element replaced, by one index per dim (the front end also takes one flat index).

        takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
        """

    @staticmethod
    def xor(lhs: Any, rhs: Any, tmp: Any = ...) -> Any:
        """lhs ^ rhs, bit by bit; of masks: where one holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        example: out[:] = pl.xor(x, x)  # x: INT32 [4, 8]
        """

    @staticmethod
    def xors(lhs: Any, rhs: Any, tmp: Any = ...) -> Any:
        """lhs ^ rhs, bit by bit; of masks: where one holds.

        takes: tensors, tiles and scalars of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, INDEX
        shapes: operands broadcast as in NumPy; the result has their common shape
        """

tile: type[_tile]

class _system:
    @staticmethod
    def aic_initialize_pipe(c2v_consumer_buf: Any = ..., v2c_consumer_buf: Any = ..., *, dir_mask: Any, slot_size: Any, slot_num: Any = ..., local_slot_num: Any = ..., id: Any = ...) -> Any:
        """Open the FIFOs of a cube kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""

    @staticmethod
    def aiv_initialize_pipe(c2v_consumer_buf: Any = ..., v2c_consumer_buf: Any = ..., *, dir_mask: Any, slot_size: Any, slot_num: Any = ..., local_slot_num: Any = ..., id: Any = ...) -> Any:
        """Open the FIFOs of a vector kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""

    @staticmethod
    def available_aiv_count() -> Any:
        """The number of vector cores, 16 outside Ascend."""

    @staticmethod
    def available_cluster_count() -> Any:
        """The number of clusters, 8 outside Ascend."""

    @staticmethod
    def bar_all() -> Any:
        """All pipes of the core wait for each other."""

    @staticmethod
    def bar_m() -> Any:
        """The matrix pipe waits for what it was given."""

    @staticmethod
    def bar_v() -> Any:
        """The vector pipe waits for what it was given."""

    @staticmethod
    def cacheinvalid(tensor: Any = ..., shapes: Any = ..., offsets: Any = ...) -> Any:
        """Forget what caches hold of a window of a tensor, or of all global memory."""

    @staticmethod
    def fence() -> Any:
        """Writes to global memory before it are visible after it."""

    @staticmethod
    def import_peer_buffer(*, name: Any, peer_func: Any) -> Any:
        """The address of a buffer that another function reserves, as an INT32 scalar."""

    @staticmethod
    def lane_pop(*, shape: Any, dtype: Any, split: Any, lane: Any, id: Any = ...) -> Any:
        """`tpop_from_aic` of one lane of `pl.split_aiv`, in printed programs."""

    @staticmethod
    def lane_push(tile: Any, *, split: Any, lane: Any, id: Any = ...) -> Any:
        """`tpush_to_aic` of one lane of `pl.split_aiv`, in printed programs."""

    @staticmethod
    def reserve_buffer(*, name: Any, size: Any, base: Any = ...) -> Any:
        """The address of a named piece of on-chip memory, as an INT32 scalar."""

    @staticmethod
    def set_ffts(workspace: Any) -> Any:
        """Declare the memory that cross-core events use."""

    @staticmethod
    def sync_dst(*, set_pipe: Any, wait_pipe: Any, event_id: Any) -> Any:
        """Wait for an event between two pipes of the core."""

    @staticmethod
    def sync_set(event_id: Any, *, pipe: Any, ffts_mode: Any = ..., core_type: Any = ...) -> Any:
        """Raise an event between cube and vector cores."""

    @staticmethod
    def sync_src(*, set_pipe: Any, wait_pipe: Any, event_id: Any) -> Any:
        """Raise an event between two pipes of the core."""

    @staticmethod
    def sync_wait(event_id: Any, *, pipe: Any, core_type: Any = ...) -> Any:
        """Wait for an event between cube and vector cores."""

    @staticmethod
    def syncall(*, core_type: Any = ..., mode: Any = ..., gm_workspace: Any = ..., used_cores: Any = ...) -> Any:
        """Every block that takes part waits here for all others."""

    @staticmethod
    def task_dummy(*, deps: Any) -> Any:
        """A TaskId that is done when all of `deps` are: a barrier without work."""

    @staticmethod
    def task_invalid() -> Any:
        """The TaskId of no producer."""

    @staticmethod
    def tfree_to_aic(tile: Any, *, split: Any = ..., id: Any = ...) -> Any:
        """Give the slot of a tile from the cube side back; split and id are those of its tpop."""

    @staticmethod
    def tfree_to_aiv(tile: Any, *, split: Any = ..., id: Any = ...) -> Any:
        """Give the slot of a tile from the vector side back; split and id are those of its tpop."""

    @staticmethod
    def tpop_from_aic(*, shape: Any = ..., dtype: Any = ..., split: Any = ..., lane_stride: Any = ..., id: Any = ...) -> Any:
        """The next tile that the cube side sent."""

    @staticmethod
    def tpop_from_aiv(*, shape: Any = ..., dtype: Any = ..., split: Any = ..., id: Any = ...) -> Any:
        """The next tile that the vector side sent, both lanes joined."""

    @staticmethod
    def tpush_to_aic(tile: Any, *, split: Any, id: Any = ...) -> Any:
        """Send a tile from the vector side to the cube side."""

    @staticmethod
    def tpush_to_aiv(tile: Any, *, split: Any, lane_stride: Any = ..., id: Any = ...) -> Any:
        """Send a tile from the cube side to the vector side."""

system: type[_system]

class _array:
    @staticmethod
    def create(extent: Any, dtype: Any) -> Any:
        """An array of `extent` zeros (TaskIds: of "no producer")."""

    @staticmethod
    def get_element(array: Any, index: Any) -> Any:
        """One element of an array."""

    @staticmethod
    def update_element(array: Any, index: Any, value: Any) -> Any:
        """A copy of the array with one element replaced."""

array: type[_array]

class _prefetch:
    @staticmethod
    def async_prefetch(src: Any, ctx: Any) -> Any:
        """Start to prefetch a tensor; evaluates to an event."""

    @staticmethod
    def make_context() -> Any:
        """A context for prefetches into the second-level cache; nothing happens outside Ascend."""

    @staticmethod
    def session(ctx: Any) -> Any:
        """The session of a prefetch context."""

    @staticmethod
    def wait(event: Any, session_handle: Any) -> Any:
        """Wait for a prefetch."""

prefetch: type[_prefetch]

abs = _tensor.abs
add = _tensor.add
addc = _tile.addc
addsc = _tile.addsc
aic_gather = _tile.aic_gather
aiv_shard = _tile.aiv_shard
all = _tensor.all
amax = _tensor.amax
amin = _tensor.amin
and_ = _tensor.and_
ands = _tensor.ands
any = _tensor.any
arange = _tensor.arange
argmax = _tensor.argmax
argmin = _tensor.argmin
argsort = _tensor.argsort
assemble = _tensor.assemble
atan = _tensor.atan
atan2 = _tensor.atan2
atomic_add = _tensor.atomic_add
atomic_and = _tensor.atomic_and
atomic_cas = _tensor.atomic_cas
atomic_exchange = _tensor.atomic_exchange
atomic_max = _tensor.atomic_max
atomic_min = _tensor.atomic_min
atomic_or = _tensor.atomic_or
atomic_xor = _tensor.atomic_xor
batch_matmul = _tile.batch_matmul
bincount = _tensor.bincount
broadcast_to = _tensor.broadcast_to
cast = _tensor.cast
cdiv = _tensor.cdiv
ceil = _tensor.ceil
clamp = _tensor.clamp
clip = _tensor.clip
cmp = _tensor.cmp
cmps = _tile.cmps
col_max = _tensor.col_max
col_min = _tensor.col_min
col_prod = _tensor.col_prod
compare = _tensor.compare
complex = _tensor.complex
concat = _tensor.concat
conj = _tensor.conj
cos = _tensor.cos
create_l1 = _tensor.create_l1
cummax = _tensor.cummax
cummin = _tensor.cummin
cumprod = _tensor.cumprod
cumsum = _tensor.cumsum
dim = _tensor.dim
div = _tensor.div
dump_tag = _tensor.dump_tag
einsum = _tensor.einsum
erf = _tensor.erf
every = _tensor.every
exp = _tensor.exp
exp2 = _tensor.exp2
expand_clone = _tensor.expand_clone
expand_dims = _tensor.expand_dims
expands = _tensor.expands
expm1 = _tensor.expm1
flip = _tensor.flip
floor = _tensor.floor
fmod = _tensor.fmod
fmods = _tensor.fmods
full = _tensor.full
full_like = _tensor.full_like
gather = _tensor.gather
gather_row = _tile.gather_row
gatherb = _tile.gatherb
gelu = _tensor.gelu
gemv = _tile.gemv
gemv_acc = _tile.gemv_acc
gemv_bias = _tile.gemv_bias
get_block_idx = _tensor.get_block_idx
get_block_num = _tensor.get_block_num
get_subblock_idx = _tensor.get_subblock_idx
histogram = _tensor.histogram
imag = _tensor.imag
iota = _tensor.iota
isnan = _tensor.isnan
load = _tile.load
log = _tensor.log
log10 = _tensor.log10
log1p = _tensor.log1p
log2 = _tensor.log2
log_softmax = _tensor.log_softmax
logsumexp = _tensor.logsumexp
lrelu = _tensor.lrelu
matmul = _tensor.matmul
matmul_acc = _tensor.matmul_acc
matmul_bias = _tile.matmul_bias
matmul_mx = _tile.matmul_mx
matmul_mx_acc = _tile.matmul_mx_acc
matmul_mx_bias = _tile.matmul_mx_bias
max = _tile.max
maximum = _tensor.maximum
maximums = _tile.maximums
mean = _tensor.mean
mgather = _tile.mgather
min = _tile.min
minimum = _tensor.minimum
minimums = _tile.minimums
move = _tile.move
mscatter = _tile.mscatter
mul = _tensor.mul
neg = _tensor.neg
no_dep = _tensor.no_dep
not_ = _tensor.not_
ones = _tensor.ones
ones_like = _tensor.ones_like
or_ = _tensor.or_
ors = _tensor.ors
paged_gather = _tensor.paged_gather
part_add = _tensor.part_add
part_max = _tensor.part_max
part_min = _tensor.part_min
part_mul = _tensor.part_mul
permute = _tensor.permute
pow = _tensor.pow
prelu = _tile.prelu
prod = _tensor.prod
rand = _tensor.rand
randn = _tensor.randn
random = _tensor.random
real = _tensor.real
recip = _tensor.recip
reinterpret_view = _tensor.reinterpret_view
relu = _tensor.relu
rem = _tile.rem
rems = _tile.rems
round = _tensor.round
rsqrt = _tensor.rsqrt
scan = _tensor.scan
scatter = _tensor.scatter
scatter_update = _tensor.scatter_update
sel = _tile.sel
sels = _tile.sels
shl = _tensor.shl
shls = _tensor.shls
shr = _tensor.shr
shrs = _tensor.shrs
sigmoid = _tensor.sigmoid
silu = _tensor.silu
sin = _tensor.sin
softmax = _tensor.softmax
softplus = _tensor.softplus
sort = _tensor.sort
sort32 = _tensor.sort32
sort_rows = _tensor.sort_rows
sqrt = _tensor.sqrt
square = _tensor.square
squeeze = _tensor.squeeze
std = _tensor.std
store = _tile.store
sub = _tensor.sub
subc = _tile.subc
subsc = _tile.subsc
sum = _tensor.sum
tan = _tensor.tan
tanh = _tensor.tanh
topk = _tensor.topk
topk_rows = _tensor.topk_rows
tri = _tile.tri
unsqueeze = _tensor.unsqueeze
var = _tensor.var
where = _tensor.where
xor = _tile.xor
xors = _tile.xors
zeros = _tensor.zeros
zeros_like = _tensor.zeros_like

def aic_initialize_pipe(c2v_consumer_buf: Any = ..., v2c_consumer_buf: Any = ..., *, dir_mask: Any, slot_size: Any, slot_num: Any = ..., local_slot_num: Any = ..., id: Any = ...) -> Any:
    """Open the FIFOs of a cube kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""

def aiv_initialize_pipe(c2v_consumer_buf: Any = ..., v2c_consumer_buf: Any = ..., *, dir_mask: Any, slot_size: Any, slot_num: Any = ..., local_slot_num: Any = ..., id: Any = ...) -> Any:
    """Open the FIFOs of a vector kernel; dir_mask 1 is cube to vector, 2 vector to cube, 3 both."""

def col_argmax(input: Any, tmp_tile: Any = ...) -> Any:
    """The row of the largest element of each column, as INT32; the first of equals.

    takes: tensors and tiles of integers and floats
    shapes: […, M, N] gives […, 1, N]
    example: out[:] = pl.col_argmax(x)  # x: FP32 [4, 8]
    """

def col_argmin(input: Any, tmp_tile: Any = ...) -> Any:
    """The row of the smallest element of each column, as INT32; the first of equals.

    takes: tensors and tiles of integers and floats
    shapes: […, M, N] gives […, 1, N]
    example: out[:] = pl.col_argmin(x)  # x: FP32 [4, 8]
    """

def col_expand(lhs: Any, rhs: Any) -> Any:
    """c[1, N] spread along the columns of the target, whose elements do not matter.

    takes: tensors and tiles of numbers and BOOL
    """

def col_expand_add(lhs: Any, rhs: Any) -> Any:
    """x + c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_expand_div(lhs: Any, rhs: Any) -> Any:
    """x / c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_expand_expdif(lhs: Any, rhs: Any) -> Any:
    """e**(x - c) with c[1, N] spread along each column.

    takes: tensors and tiles of floats
    """

def col_expand_max(lhs: Any, rhs: Any) -> Any:
    """The larger of x and c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_expand_min(lhs: Any, rhs: Any) -> Any:
    """The smaller of x and c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_expand_mul(lhs: Any, rhs: Any) -> Any:
    """x * c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_expand_sub(lhs: Any, rhs: Any) -> Any:
    """x - c with c[1, N] spread along each column.

    takes: tensors and tiles of integers and floats
    """

def col_sum(input: Any, tmp_tile: Any = ...) -> Any:
    """The sum of each column.

    takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    shapes: […, M, N] gives […, 1, N]
    example: out[:] = pl.col_sum(x)  # x: FP32 [4, 8]
    """

def create_tensor(shape: Any, dtype: Any, layout: Any = ..., manual_dep: Any = ..., init_value: Any = ...) -> Any:
    """A new tensor, uninitialised unless `init_value` is given."""

def create_tile(shape: Any, dtype: Any, target_memory: Any = ..., transpose: Any = ..., *, flat_layout: Any = ...) -> Any:
    """A tile of undefined content.

    takes: tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def fillpad(value: Any, pad_value: Any = ...) -> Any:
    """The same elements with everything outside the valid region filled by zero or the dtype's extremes (infinities for floats).

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def fillpad_expand(value: Any, shape: Any, pad_value: Any = ...) -> Any:
    """The valid region in the corner of a larger value, the rest filled.

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def import_peer_buffer(*, name: Any, peer_func: Any) -> Any:
    """The address of a buffer that another function reserves, as an INT32 scalar."""

def mrgsort(src0: Any, src1: Any = ..., src2: Any = ..., src3: Any = ..., tmp: Any = ..., *, exhausted: Any = ..., block_len: Any = ...) -> Any:
    """One list: each four sorted runs of `block_len` columns become one. Several: two to four sorted lists become one.

    takes: tensors and tiles of FP16, FP32
    """

def read(src: Any, offset: Any) -> Any:
    """One element as a scalar, by one index per dim or one flat index."""

def reserve_buffer(*, name: Any, size: Any, base: Any = ...) -> Any:
    """The address of a named piece of on-chip memory, as an INT32 scalar."""

def reshape(input: Any, shape: Any) -> Any:
    """The same elements in row-major order with another shape; a partial valid region must stay a box at the origin.

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def row_argmax(input: Any, tmp_tile: Any = ...) -> Any:
    """The column of the largest element of each row, as INT32; the first of equals.

    takes: tensors and tiles of integers and floats
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_argmax(x)  # x: FP32 [4, 8]
    """

def row_argmin(input: Any, tmp_tile: Any = ...) -> Any:
    """The column of the smallest element of each row, as INT32; the first of equals.

    takes: tensors and tiles of integers and floats
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_argmin(x)  # x: FP32 [4, 8]
    """

def row_expand(lhs: Any, rhs: Any) -> Any:
    """r[M, 1] spread along the rows of the target, whose elements do not matter.

    takes: tensors and tiles of numbers and BOOL
    """

def row_expand_add(lhs: Any, rhs: Any, tmp: Any = ...) -> Any:
    """x + r with r[M, 1] spread along each row; a tile r of one 32-byte block per row is repeated along it instead.

    takes: tensors and tiles of integers and floats
    """

def row_expand_div(lhs: Any, rhs: Any) -> Any:
    """x / r with r[M, 1] spread along each row.

    takes: tensors and tiles of integers and floats
    """

def row_expand_expdif(lhs: Any, rhs: Any) -> Any:
    """e**(x - r) with r[M, 1] spread along each row.

    takes: tensors and tiles of floats
    """

def row_expand_max(lhs: Any, rhs: Any) -> Any:
    """The larger of x and r with r[M, 1] spread along each row.

    takes: tensors and tiles of integers and floats
    """

def row_expand_min(lhs: Any, rhs: Any) -> Any:
    """The smaller of x and r with r[M, 1] spread along each row.

    takes: tensors and tiles of integers and floats
    """

def row_expand_mul(lhs: Any, rhs: Any) -> Any:
    """x * r with r[M, 1] spread along each row.

    takes: tensors and tiles of integers and floats
    """

def row_expand_sub(lhs: Any, rhs: Any) -> Any:
    """x - r with r[M, 1] spread along each row.

    takes: tensors and tiles of integers and floats
    """

def row_max(input: Any, tmp_tile: Any = ...) -> Any:
    """The largest element of each row.

    takes: tensors and tiles of numbers and BOOL
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_max(x)  # x: FP32 [4, 8]
    """

def row_min(input: Any, tmp_tile: Any = ...) -> Any:
    """The smallest element of each row.

    takes: tensors and tiles of numbers and BOOL
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_min(x)  # x: FP32 [4, 8]
    """

def row_prod(input: Any, tmp_tile: Any = ...) -> Any:
    """The product of each row.

    takes: tensors and tiles of integers and floats
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_prod(x)  # x: FP32 [4, 8]
    """

def row_sum(input: Any, tmp_tile: Any = ...) -> Any:
    """The sum of each row.

    takes: tensors and tiles of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    shapes: […, M, N] gives […, M, 1]
    example: out[:] = pl.row_sum(x)  # x: FP32 [4, 8]
    """

def set_validshape(input: Any, valid_rows: Any, valid_cols: Any) -> Any:
    """The same elements, valid in the given rows and columns; cells that were not valid before have undefined content.

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def slice(input: Any, shape: Any, offset: Any, valid_shape: Any = ..., drop_dims: Any = ..., pad_value: Any = ..., clamp: Any = ...) -> Any:
    """The window of `shape` at `offset`; `pad_value` fills the cells of the window outside its valid region, which stays as it is.

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def tfree_to_aic(tile: Any, *, split: Any = ..., id: Any = ...) -> Any:
    """Give the slot of a tile from the cube side back; split and id are those of its tpop."""

def tfree_to_aiv(tile: Any, *, split: Any = ..., id: Any = ...) -> Any:
    """Give the slot of a tile from the vector side back; split and id are those of its tpop."""

def tpop_from_aic(*, shape: Any = ..., dtype: Any = ..., split: Any = ..., lane_stride: Any = ..., id: Any = ...) -> Any:
    """The next tile that the cube side sent."""

def tpop_from_aiv(*, shape: Any = ..., dtype: Any = ..., split: Any = ..., id: Any = ...) -> Any:
    """The next tile that the vector side sent, both lanes joined."""

def tpush_to_aic(tile: Any, *, split: Any, id: Any = ...) -> Any:
    """Send a tile from the vector side to the cube side."""

def tpush_to_aiv(tile: Any, *, split: Any, lane_stride: Any = ..., id: Any = ...) -> Any:
    """Send a tile from the cube side to the vector side."""

def transpose(input: Any, axis1: Any, axis2: Any) -> Any:
    """Two axes swapped; negative axes count from the end.

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

def write(dst: Any, offset: Any, value: Any) -> Any:
    """dst with one element replaced, by one index per dim (the front end also takes one flat index).

    takes: tensors and tiles of BOOL, INT4, INT8, INT16, INT32, INT64, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, BF16, FP32, FP64, INDEX, COMPLEX64
    """

Mem = MemorySpace
ND = TensorLayout.ND
DN = TensorLayout.DN
NZ = TensorLayout.NZ
MX_A_ZZ = TensorLayout.MX_A_ZZ
MX_B_NN = TensorLayout.MX_B_NN
TaskId: Any
