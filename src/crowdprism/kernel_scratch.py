"""Memory that a kernel takes for itself or finds by its address; imports numba, so only making machine code imports it.

A compiler that sees memory being allocated knows that nothing else points to it, and may then keep a row in registers
over a loop. NumPy arrays would do, but freeing them needs numba in the process.
"""

# The types here are those of the code that is written, not of Python.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTES = ir.IntType(64)
ANYTHING = ir.IntType(8).as_pointer()
DOUBLES = types.CPointer(types.float64)
FLOATS = types.CPointer(types.float32)
BYTES_PER_DOUBLE = 8


@intrinsic
def new_doubles(typing_context, count):
    """Pointer to that many numbers, not set to anything; `free_doubles` gives them back."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        malloc = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ANYTHING, [BYTES]), "malloc")
        malloc.return_value.attributes.add("noalias")
        place = builder.call(malloc, [builder.mul(arguments[0], BYTES(BYTES_PER_DOUBLE))])
        return builder.bitcast(place, ir.DoubleType().as_pointer())

    return DOUBLES(types.int64), generate


@intrinsic
def free_doubles(typing_context, place):
    """Give back what `new_doubles` gave."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        free = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [ANYTHING]), "free")
        builder.call(free, [builder.bitcast(arguments[0], ANYTHING)])
        return context.get_dummy_value()

    return types.void(DOUBLES), generate


@intrinsic
def floats_at(typing_context, address):
    """Pointer to the numbers at an address: how a kernel takes a list of arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.FloatType().as_pointer())

    return FLOATS(types.int64), generate
