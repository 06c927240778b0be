"""Bytes read, written and searched several at once; imports numba, so only making machine code imports it."""

# The types here are those of the code that is written, not of Python.
# mypy: ignore-errors
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from crowdprism.annotations.annotation_kernels import VECTOR_BYTES


@intrinsic
def load_word(typing_context, pointer, place):
    """Eight bytes from any place, as one number (the first byte lowest)."""

    def generate(context, builder, signature, arguments):
        address = builder.gep(arguments[0], [arguments[1]])
        word = context.get_value_type(types.uint64)
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1)

    return types.uint64(pointer, types.int64), generate


@intrinsic
def store_word(typing_context, pointer, place, word):
    """Write a number as eight bytes to any place."""

    def generate(context, builder, signature, arguments):
        address = builder.gep(arguments[0], [arguments[1]])
        builder.store(arguments[2], builder.bitcast(address, arguments[2].type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, types.uint64), generate


@intrinsic
def marked_bytes(typing_context, pointer, place, first, second, third, fourth):
    """Which of the next VECTOR_BYTES bytes are one of four, as the bits of a number (the first byte lowest)."""

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.IntType(8), VECTOR_BYTES)
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), vector.as_pointer())
        text = builder.load(address, align=1)
        found = None
        for sought in arguments[2:]:
            one = builder.insert_element(vector(ir.Undefined), sought, ir.IntType(32)(0))
            places = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR_BYTES), [0] * VECTOR_BYTES)
            same = builder.icmp_unsigned("==", text, builder.shuffle_vector(one, vector(ir.Undefined), places))
            found = same if found is None else builder.or_(found, same)
        return builder.zext(builder.bitcast(found, ir.IntType(VECTOR_BYTES)), ir.IntType(64))

    return types.uint64(pointer, types.int64, *[types.uint8] * 4), generate


@intrinsic
def trailing_zeros(typing_context, value):
    """Number of zero bits below the lowest one."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate
