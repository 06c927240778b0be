"""Machine code of the kernels, kept on disk so that a process can use it without loading numba.

numba is needed to make machine code, not to run it: importing it and loading one cached function of its own takes
half a second and 170 MB, most of it the types and rules of a compiler that has nothing left to compile. So the code
that numba made is kept as an object file beside the compiled Python of its module, and the linker of llvmlite, which
numba is built on, puts it into memory in a tenth of the time and a third of the room.

A file is used only for the sources, the versions and the processor that it was made for, and only if its digest is
right; otherwise the code is made anew. Where llvmlite's linker is not known to do (systems other than Linux), or where
the code would call what a process without numba does not have, numba runs it itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.files import replacing_file

DIGEST_BYTES = 32
OPTIMIZE = 3
# What code may call besides itself: found in every process.
EVERYWHERE = {"malloc", "free", "log", "log1p", "exp", "memcpy", "memset", "memmove"}
# Sums may be reordered (vector sums need it); infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}
SCRATCH = "crowdprism.kernel_scratch"
WHOLE_NUMBER = "n"  # an argument that is one whole number; all others are arrays of the NumPy type named

Address = Callable[..., Any]


class NotAloneError(Exception):
    """The code calls something that only a process with numba has."""


@dataclass(frozen=True)
class Loaded:
    """Functions in memory, and what must live as long as they do."""

    functions: Mapping[str, Address]
    owner: Any


class Kernels:
    """The compiled functions of one module, loaded at their first call; their results go into arrays they are given.

    Parameters
    ----------
    module
        Name of the module that holds the functions as numba compiles them. Only making the code imports it.
    signatures
        Function name to the types of its arguments: NumPy type codes of arrays (`"f8"`), or `"n"` for a whole number.
    imports
        Modules of ours that the module takes something from: when they change, the code is made anew.
    """

    def __init__(self, module: str, signatures: Mapping[str, str], *, imports: Sequence[str] = ()) -> None:
        self.module = module
        self.imports = imports
        self.signatures = {name: tuple(signature.split()) for name, signature in signatures.items()}
        self._types = {name: argument_types(signature) for name, signature in self.signatures.items()}
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None

    def __call__(self, name: str, *arguments: Any) -> None:
        """Run a function; the interpreter lock is free meanwhile."""
        self.load().functions[name](*passed(name, arguments, self._types[name]))

    def run(self, name: str, *arguments: int) -> None:
        """Run a function on addresses and whole numbers as they are; the caller answers for their types."""
        self.load().functions[name](*arguments)

    def load(self) -> Loaded:
        """Bring the functions into memory, once, whichever thread comes first."""
        if self._loaded is None:
            with self._lock:
                self._loaded = self._loaded or self._find()
        return self._loaded

    def _find(self) -> Loaded:
        if sys.platform != "linux":
            return functions_of_numba(self.module, self.signatures)
        try:
            return self._linked(self._path())
        except (NotAloneError, AttributeError, RuntimeError):  # the latter two: an llvmlite without these passes
            return functions_of_numba(self.module, self.signatures)

    def _linked(self, path: Path) -> Loaded:
        code = stored(path)
        if code is None:
            code = object_code(self.module, self.signatures)
            store(path, code)
        return link(code, self.signatures)

    def _path(self) -> Path:
        """Where the code is kept: beside the module's bytecode, named by all that it depends on."""
        source = source_file(self.module)
        made_of = [source_file(name).read_bytes() for name in (self.module, __name__, SCRATCH, *self.imports)]
        made_of += [repr(sorted(self.signatures.items())).encode(), version("numba").encode()]
        made_of += [part.encode() for part in processor()]
        key = hashlib.sha256(b"\0".join(made_of)).hexdigest()[:16]
        return Path(importlib.util.cache_from_source(str(source))).with_name(f"{source.stem}.{key}.o")


def source_file(module: str) -> Path:
    """The file of a module, which is not imported."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def argument_types(signature: tuple[str, ...]) -> tuple[np.dtype[Any] | None, ...]:
    """The type of each argument's array, None for whole numbers."""
    return tuple(None if code == WHOLE_NUMBER else np.dtype(code) for code in signature)


def c_types(signature: tuple[str, ...]) -> list[Any]:
    """How C takes the arguments: addresses and whole numbers."""
    return [ctypes.c_ssize_t if code == WHOLE_NUMBER else ctypes.c_void_p for code in signature]


def passed(name: str, arguments: tuple[Any, ...], types: tuple[np.dtype[Any] | None, ...]) -> list[Any]:
    """Arguments as C passes them. Code that reads the wrong type would give nonsense, so types are asserted."""
    ready: list[Any] = []
    for position, (argument, wanted) in enumerate(zip(arguments, types, strict=True)):
        if wanted is None:
            ready.append(argument)
            continue
        fits = argument.dtype is wanted or argument.dtype == wanted
        fits = fits and argument.flags.c_contiguous
        assert fits, f"{name} argument {position}: {argument.dtype} in place of contiguous {wanted}"
        ready.append(argument.ctypes.data)
    return ready


# -- on disk ------------------------------------------------------------------------------------------------


def stored(path: Path) -> bytes | None:
    """Code kept at a path, or None where there is none or not all of it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def store(path: Path, code: bytes) -> None:
    """Keep code; where nothing can be written, the next process makes it again."""
    try:
        with replacing_file(path) as fresh:
            fresh.write_bytes(hashlib.sha256(code).digest() + code)
    except OSError:
        return


# -- making and linking -------------------------------------------------------------------------------------


def processor() -> tuple[str, str]:
    """Name and features of the processor that code is made for."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> Any:
    """llvmlite's description of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = processor()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=OPTIMIZE, jit=True)


def compiled_by_numba(module: str, signatures: Mapping[str, tuple[str, ...]], *, keep: bool) -> dict[str, Any]:
    """The functions as numba's C callbacks. Division by zero gives infinity: there is nobody to raise for."""
    from numba import cfunc, from_dtype, types

    source = import_module(module)
    pointer: Any = types.CPointer
    found = {}
    for name, signature in signatures.items():
        arguments = [pointer(from_dtype(kind)) if kind else types.intp for kind in argument_types(signature)]
        callback = cfunc(types.void(*arguments), cache=keep, fastmath=FAST, error_model="numpy")
        found[name] = callback(getattr(source, name))
    return found


def object_code(module: str, signatures: Mapping[str, tuple[str, ...]]) -> bytes:
    """Compile the functions of a module into one object file."""
    import llvmlite.binding as llvm

    machine = target_machine()
    whole = llvm.parse_assembly("")
    whole.triple = machine.triple
    for name, callback in compiled_by_numba(module, signatures, keep=False).items():
        part = llvm.parse_assembly(callback.inspect_llvm())
        # A callback is a wrapper, which reports exceptions to Python, around the function proper. Only the latter
        # is wanted: there are no exceptions here, and reporting them would need numba.
        proper = callback.native_name.removeprefix("cfunc.")
        for function in part.functions:
            if not function.is_declaration and function.name != proper:
                function.linkage = "internal"
        part.get_function(proper).name = name
        whole.link_in(part)
    drop_unused(whole, machine)
    needed = {function.name for function in whole.functions if function.is_declaration}
    needed |= {variable.name for variable in whole.global_variables if variable.is_declaration}
    if {name for name in needed if not name.startswith("llvm.")} - EVERYWHERE:
        raise NotAloneError
    code: bytes = machine.emit_object(whole)
    return code


def drop_unused(whole: Any, machine: Any) -> None:
    """Remove functions that nothing calls, and the names of those that are not there."""
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(whole, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(OPTIMIZE)))


def link(code: bytes, signatures: Mapping[str, tuple[str, ...]]) -> Loaded:
    """Put an object file into memory."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in signatures:
        builder.export_symbol(name)
    library = builder.link(linker(), f"crowdprism.{'.'.join(signatures)}")
    # numba's functions begin with two places to write to, for a returned value and for an exception: unused here.
    unused = ctypes.create_string_buffer(16)
    places = (ctypes.c_void_p(ctypes.addressof(unused)), ctypes.c_void_p(ctypes.addressof(unused) + 8))
    functions = {}
    for name, signature in signatures.items():
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *c_types(signature))
        functions[name] = after(prototype(library[name]), places)
    return Loaded(functions, (library, unused))


@cache
def linker() -> Any:
    """One linker for the life of the process."""
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler()


def after(function: Address, first: tuple[Any, ...]) -> Address:
    """The function with its first arguments given."""
    return lambda *arguments: function(*first, *arguments)


def functions_of_numba(module: str, signatures: Mapping[str, tuple[str, ...]]) -> Loaded:
    """The functions as numba itself compiles, keeps and runs them."""
    callbacks = compiled_by_numba(module, signatures, keep=True)
    functions = {
        name: ctypes.CFUNCTYPE(None, *c_types(signatures[name]))(callback.address)
        for name, callback in callbacks.items()
    }
    return Loaded(functions, callbacks)
