"""Compiled kernels for millions of annotations; imported only where there are that many.

Texts are told apart exactly: a hash finds the place in a table, and the bytes themselves are compared.
All kernels release the interpreter lock, so that two threads can share the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

NEWLINE, RETURN, QUOTE = np.uint8(10), np.uint8(13), np.uint8(34)
NOT_PLAIN = -1
MINUS, POINT, ZERO = 45, 46, 48
MAX_DIGITS = 18  # fits int64
ONES, HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
NEWLINES, RETURNS, QUOTES = np.uint64(10) * ONES, np.uint64(13) * ONES, np.uint64(34) * ONES
MIX = np.uint64(0x9E3779B97F4A7C15)
# A record of the names' store, in words of 8 bytes: code and length, hash, count, then the bytes.
RECORD_WORDS = 3
FIRST_PLACE = 1  # 0 marks a free slot
LOW_HALF = np.uint64(0xFFFFFFFF)
TAG_SHIFT = np.uint64(40)  # a slot of the table keeps 24 bits of the hash above 40 bits of place
PLACE_MASK = np.uint64((1 << 40) - 1)
INSERTION_LIMIT = 48  # longer runs are sorted by the library, which is not quadratic
AHEAD = 256  # rows looked at together


def compiled(function: F) -> F:
    """Compile once for all sessions, without the interpreter lock."""
    return cast(F, numba.njit(nogil=True, cache=True)(function))


def _load_word(typing_context: Any, array: Any, place: Any) -> Any:
    """Eight bytes of a byte array from any place, as one number (the first byte lowest)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.gep(data, [arguments[1]])
        word = context.get_value_type(numba.types.uint64)
        return builder.load(builder.bitcast(address, word.as_pointer()), align=1)

    return numba.types.uint64(array, numba.types.int64), generate


load_word: Any = intrinsic(_load_word)


def _trailing_zeros(typing_context: Any, value: Any) -> Any:
    """Number of zero bits below the lowest one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(numba.types.boolean, False))

    return numba.types.uint64(numba.types.uint64), generate


trailing_zeros: Any = intrinsic(_trailing_zeros)


@compiled
def zero_bytes(word: Any) -> Any:
    """A word whose lowest set bit marks the lowest byte that is zero; 0 if none is."""
    return (word - ONES) & ~word & HIGHS


@compiled
def first_bytes(word: Any, count: Any) -> Any:
    """The lowest bytes of a word, zeros above."""
    return word if count >= 8 else word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@compiled
def hash_bytes(buffer: np.ndarray, start: int, length: int) -> Any:
    """Hash some bytes, eight at a time."""
    value = np.uint64(length) * MIX
    for done in range(0, length, 8):
        value = (value ^ first_bytes(load_word(buffer, start + done), length - done)) * MIX
        value ^= value >> np.uint64(32)
    return value


@compiled
def scan_rows(
    buffer: np.ndarray,  # (bytes,) whole lines; eight bytes more than `end` can be read
    begin: int,
    end: int,
    delimiter: int,
    role_of_column: np.ndarray,  # (column,) which of the wanted columns it is, else -1
    starts: np.ndarray,  # (role, row) out
    lengths: np.ndarray,  # (role, row) out
    hashes: np.ndarray,  # (role, row) out
) -> tuple[int, int]:
    """Find and hash the wanted cells of the next rows, as many as fit; return their number and the place after them.

    The number is NOT_PLAIN at anything unusual.
    """
    n_columns = len(role_of_column)
    delimiters = np.uint64(delimiter) * ONES
    row = 0
    place: Any = begin
    while place < end and row < starts.shape[1]:
        if buffer[place] == NEWLINE:
            place += 1
            continue
        for column in range(n_columns):
            quoted = buffer[place] == QUOTE
            if quoted:
                place += 1
            start = place
            while True:
                word = load_word(buffer, place)
                marks = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ NEWLINES)
                if not quoted:
                    marks |= zero_bytes(word ^ delimiters) | zero_bytes(word ^ RETURNS)
                if marks:
                    place += np.int64(trailing_zeros(marks) >> np.uint64(3))
                    break
                place += 8
                if place >= end:
                    break
            stop = min(place, end)
            role = role_of_column[column]
            if role >= 0:
                starts[role, row] = start
                lengths[role, row] = stop - start
                hashes[role, row] = hash_bytes(buffer, start, stop - start)
            if quoted:
                if place >= end or buffer[place] != QUOTE:
                    return NOT_PLAIN, place
                place += 1
            if column < n_columns - 1:
                if place >= end or buffer[place] != delimiter:
                    return NOT_PLAIN, place
                place += 1
        if place < end and buffer[place] == RETURN:
            place += 1
        if place < end and buffer[place] != NEWLINE:
            return NOT_PLAIN, place
        place += 1
        row += 1
    return row, place


@compiled
def code_cells(
    buffer: np.ndarray,
    starts: np.ndarray,  # (row,)
    lengths: np.ndarray,
    hashes: np.ndarray,
    slots: np.ndarray,  # (power of two,) 0 where free
    words: np.ndarray,  # the names' store
    state: np.ndarray,  # words used, names known, a sum that keeps the touching of memory from being left out
    touched: np.ndarray,  # (at least row,) working memory
    codes: np.ndarray,  # (row,) out
) -> None:
    """Give each cell the code of its text and count it; new texts get the next code and are stored."""
    mask = np.uint64(len(slots) - 1)
    seen = np.uint64(0)
    # Ask the memory for all entries at once: one after the other would wait for each.
    for row in range(len(codes)):
        touched[row] = slots[hashes[row] & mask]
    for row in range(len(codes)):
        seen ^= words[np.int64(touched[row] & PLACE_MASK)]
    for row in range(len(codes)):
        value = hashes[row]
        start = np.int64(starts[row])
        length = np.int64(lengths[row])
        tag = value >> TAG_SHIFT
        slot = value & mask
        while True:
            entry = slots[slot]
            if entry == 0:
                place = state[0]
                words[place] = np.uint64(state[1]) << np.uint64(32) | np.uint64(length)
                words[place + 1] = value
                words[place + 2] = np.uint64(1)
                into = place + RECORD_WORDS
                for done in range(0, length, 8):
                    words[into] = first_bytes(load_word(buffer, start + done), length - done)
                    into += 1
                slots[slot] = (tag << TAG_SHIFT) | np.uint64(place)
                codes[row] = state[1]
                state[0] = into
                state[1] += 1
                break
            if entry >> TAG_SHIFT == tag:
                place = np.int64(entry & PLACE_MASK)
                info = words[place]
                if np.int64(info & LOW_HALF) == length and words[place + 1] == value:
                    at = place + RECORD_WORDS
                    same = True
                    for done in range(0, length, 8):
                        if words[at] != first_bytes(load_word(buffer, start + done), length - done):
                            same = False
                            break
                        at += 1
                    if same:
                        words[place + 2] += np.uint64(1)
                        codes[row] = np.int64(info >> np.uint64(32))
                        break
            slot = (slot + np.uint64(1)) & mask
    state[2] = np.int64(seen & np.uint64(1))


@compiled
def has_room(slots: np.ndarray, words: np.ndarray, state: np.ndarray, lengths: np.ndarray) -> Any:
    """Tell whether a table can take these cells even if all are new, and stays at most two thirds full."""
    needed = len(lengths) * (RECORD_WORDS + 1)
    for length in lengths:
        needed += length // 8
    return state[0] + needed <= len(words) and 3 * (state[1] + len(lengths)) <= 2 * len(slots)


@compiled
def encode_lines(
    buffer: np.ndarray,
    begin: int,
    end: int,
    delimiter: int,
    role_of_column: np.ndarray,  # (column,) which of the tables it belongs to, else -1
    tables: tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], ...],  # slots, words, state, codes of each
    done: int,
) -> tuple[int, int]:
    """Encode the wanted columns of whole lines, a few rows at a time so that all stays in the fastest memory.

    Returns the number of rows done in this block and the place reached: less than `end` where a table is full, and
    NOT_PLAIN for rows at anything unusual.
    """
    n_tables = len(tables)
    starts = np.empty((n_tables, AHEAD), dtype=np.int32)
    lengths = np.empty((n_tables, AHEAD), dtype=np.int32)
    hashes = np.empty((n_tables, AHEAD), dtype=np.uint64)
    touched = np.empty(AHEAD, dtype=np.uint64)
    place = begin
    while place < end:
        count, after = scan_rows(buffer, place, end, delimiter, role_of_column, starts, lengths, hashes)
        if count < 0:
            return NOT_PLAIN, place
        for role in range(n_tables):
            slots, words, state, codes = tables[role]
            if not has_room(slots, words, state, lengths[role, :count]):
                return done, place
        for role in range(n_tables):
            slots, words, state, codes = tables[role]
            code_cells(
                buffer,
                starts[role, :count],
                lengths[role, :count],
                hashes[role, :count],
                slots,
                words,
                state,
                touched,
                codes[done : done + count],
            )
        done += count
        place = after
    return done, place


@compiled
def absorb(
    other: np.ndarray,  # the names' store of another table
    used: int,
    slots: np.ndarray,
    words: np.ndarray,
    state: np.ndarray,
    codes: np.ndarray,  # (name of the other table,) out: its code in this one
) -> None:
    """Enter the names of another table, with their counts; there must be room for all of them."""
    mask = np.uint64(len(slots) - 1)
    place: Any = FIRST_PLACE
    code = 0
    while place < used:
        info, value = other[place], other[place + 1]
        n_words = RECORD_WORDS + (np.int64(info & LOW_HALF) + 7) // 8
        tag = value >> TAG_SHIFT
        slot = value & mask
        while True:
            entry = slots[slot]
            if entry == 0:
                into = state[0]
                words[into] = np.uint64(state[1]) << np.uint64(32) | (info & LOW_HALF)
                for word in range(1, n_words):
                    words[into + word] = other[place + word]
                slots[slot] = (tag << TAG_SHIFT) | np.uint64(into)
                codes[code] = state[1]
                state[0] = into + n_words
                state[1] += 1
                break
            if entry >> TAG_SHIFT == tag:
                at = np.int64(entry & PLACE_MASK)
                same = (words[at] & LOW_HALF) == (info & LOW_HALF)
                for word in range(RECORD_WORDS, n_words):
                    same = same and words[at + word] == other[place + word]
                if same:
                    words[at + 2] += other[place + 2]
                    codes[code] = np.int64(words[at] >> np.uint64(32))
                    break
            slot = (slot + np.uint64(1)) & mask
        place += n_words
        code += 1


@compiled
def rehash(words: np.ndarray, used: int, slots: np.ndarray) -> None:
    """Enter every stored name into a new, larger table."""
    mask = np.uint64(len(slots) - 1)
    place: Any = FIRST_PLACE
    while place < used:
        value = words[place + 1]
        slot = value & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = ((value >> TAG_SHIFT) << TAG_SHIFT) | np.uint64(place)
        place += RECORD_WORDS + (np.int64(words[place] & LOW_HALF) + 7) // 8


@compiled
def join_names(
    words: np.ndarray, store: np.ndarray, used: int, joined: np.ndarray, lengths: np.ndarray, counts: np.ndarray
) -> int:
    """Write the stored names in the order of their codes, a line each; return the number of bytes."""
    place: Any = FIRST_PLACE
    out = 0
    code = 0
    while place < used:
        length = np.int64(words[place] & LOW_HALF)
        at = (place + RECORD_WORDS) * 8
        for byte in range(length):
            joined[out] = store[at + byte]
            out += 1
        joined[out] = NEWLINE
        out += 1
        lengths[code] = length
        counts[code] = np.int64(words[place + 2])
        code += 1
        place += RECORD_WORDS + (length + 7) // 8
    return out


@compiled
def join_ordered(joined: np.ndarray, lengths: np.ndarray, order: np.ndarray, out: np.ndarray) -> None:
    """Write names that stand a line each in another order."""
    places = np.empty(len(lengths), dtype=np.int64)
    place = 0
    for code in range(len(lengths)):
        places[code] = place
        place += lengths[code] + 1
    place = 0
    for code in order:
        begin = places[code]
        for byte in range(lengths[code] + 1):
            out[place] = joined[begin + byte]
            place += 1


@compiled
def common_prefix(joined: np.ndarray, lengths: np.ndarray) -> Any:
    """Number of bytes with which all names begin."""
    prefix = lengths[0]
    place = 0
    for code in range(len(lengths)):
        same = 0
        while same < prefix and same < lengths[code] and joined[place + same] == joined[same]:
            same += 1
        prefix = min(prefix, same)
        place += lengths[code] + 1
    return prefix


@compiled
def sort_words(joined: np.ndarray, lengths: np.ndarray, skip: int, keys: np.ndarray) -> bool:
    """Write names as numbers (name, word) that sort as their bytes do, `skip` bytes left out; False at a zero byte."""
    place = 0
    for code in range(len(lengths)):
        for word in range(keys.shape[1]):
            value = np.uint64(0)
            for byte in range(8):
                at = skip + word * 8 + byte
                value <<= np.uint64(8)
                if at < lengths[code]:
                    if joined[place + at] == 0:
                        return False  # the zero that fills up short names would be taken for it
                    value |= np.uint64(joined[place + at])
            keys[code, word] = value
        place += lengths[code] + 1
    return True


@compiled
def whole_numbers(joined: np.ndarray, lengths: np.ndarray, cut: int, numbers: np.ndarray) -> bool:
    """Read names as whole numbers; False unless every one is written as Python writes it, `cut` bytes left out."""
    place = 0
    for code in range(len(lengths)):
        first = place
        last = place + lengths[code] - cut
        negative = last > first and joined[first] == MINUS
        if negative:
            first += 1
        n_digits = last - first
        if n_digits < 1 or n_digits > MAX_DIGITS or (joined[first] == ZERO and (n_digits > 1 or negative)):
            return False
        value = np.int64(0)
        for at in range(first, last):
            digit = np.int64(joined[at]) - ZERO
            if digit < 0 or digit > 9:
                return False
            value = value * 10 + digit
        if cut and (joined[last] != POINT or joined[last + 1] != ZERO):
            return False
        numbers[code] = -value if negative else value
        place += lengths[code] + 1
    return True


@compiled
def code_hashes(
    hashes: np.ndarray, slots: np.ndarray, slot_codes: np.ndarray, first: np.ndarray, codes: np.ndarray
) -> int:
    """Number distinct hashes in order of appearance; `first` gets the row of each. Return how many there are."""
    mask = np.uint64(len(slots) - 1)
    known = 0
    for row in range(len(hashes)):
        value = hashes[row]
        slot = value & mask
        while True:
            code = slot_codes[slot]
            if code < 0:
                slots[slot] = value
                slot_codes[slot] = known
                first[known] = row
                codes[row] = known
                known += 1
                break
            if slots[slot] == value:
                codes[row] = code
                break
            slot = (slot + np.uint64(1)) & mask
    return known


@compiled
def place_rows(
    item: np.ndarray,  # (row,) codes
    annotator: np.ndarray,
    label: np.ndarray,
    annotator_rank: np.ndarray,  # (annotator code,) position of the name
    label_rank: np.ndarray,
    next_place: np.ndarray,  # (item code,) where the item's next annotation goes; advanced
    low: int,  # only places low..high-1: the share of one thread
    high: int,
    n_classes: int,
    keys: np.ndarray,  # (row,) out, int32 where it can hold them: annotator and label as one number, grouped by item
) -> None:
    """Put annotator and label of each row in the place of its item (a counting sort)."""
    for row in range(len(item)):
        place = next_place[item[row]]
        if low <= place < high:
            next_place[item[row]] = place + 1
            keys[place] = np.int64(annotator_rank[annotator[row]]) * n_classes + label_rank[label[row]]


@compiled
def sort_within_items(
    start: np.ndarray,  # (item + 1,)
    begin: int,
    end: int,
    n_classes: int,
    keys: np.ndarray,
    annotator: np.ndarray,  # out
    label: np.ndarray,  # out
) -> None:
    """Sort the keys of each item in begin..end-1 and take them apart."""
    for item in range(begin, end):
        first, last = start[item], start[item + 1]
        if last - first > INSERTION_LIMIT:
            keys[first:last].sort()
        else:
            for place in range(first + 1, last):
                key = keys[place]
                hole = place
                while hole > first and keys[hole - 1] > key:
                    keys[hole] = keys[hole - 1]
                    hole -= 1
                keys[hole] = key
        for place in range(first, last):
            annotator[place] = keys[place] // n_classes
            label[place] = keys[place] % n_classes
