from tilejit.compiler import RoundTripInstrument as RoundTripInstrument
from tilejit.compiler import run as run
from tilejit.passes.context import CallbackInstrument as CallbackInstrument
from tilejit.passes.context import PassContext as PassContext
from tilejit.passes.pipeline import VerifyInstrument as VerifyInstrument
from tilejit.jit.hosts.distributed import DistributedCompiledProgram as DistributedCompiledProgram
from tilejit.jit.hosts.workers import DistributedRunHandle as DistributedRunHandle, DistributedWorker as DistributedWorker
from tilejit.runtime.ranks.config import DistributedConfig as DistributedConfig
from tilejit.runtime.ranks.resident import Sharded as Sharded, StackedDeviceTensor as StackedDeviceTensor
from tilejit.runtime.arrays import DeviceTensor as DeviceTensor
from tilejit.runtime.bench import BenchmarkStats as BenchmarkStats
from tilejit.runtime.bench import benchmark as benchmark
from tilejit.runtime.artifact.compiled import CompiledEntry as CompiledEntry
from tilejit.runtime.artifact.compiled import CompiledProgram as CompiledProgram
from tilejit.runtime.cuda.arrays import DeviceArray as DeviceArray
from tilejit.runtime.cuda.entry import synchronise as synchronise
from tilejit.runtime.config import OptimizationStrategy as OptimizationStrategy
from tilejit.runtime.config import RunConfig as RunConfig
from tilejit.runtime.artifact.execute import execute_compiled as execute_compiled
from tilejit.runtime.call.signature import ParamInfo as ParamInfo

__all__: list[str]
