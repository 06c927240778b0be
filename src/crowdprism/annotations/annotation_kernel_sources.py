"""The loops of `annotation_kernels`, as numba compiles them; only making machine code imports this module.

Arrays come as pointers, tables row by row. A table of names has four: `slots` (a power of two of them, 0 where free)
lead to records in `words`; `state` holds the words used, the names known, and a sum that keeps the touching of memory
from being left out. What a loop finds goes into `found`.
"""

# The functions have the types that `annotation_kernels.KERNELS` gives them; they are never called as Python.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

from crowdprism.annotations.annotation_kernel_words import load_word, marked_bytes, store_word, trailing_zeros
from crowdprism.annotations.annotation_kernels import AHEAD, FIRST_PLACE, NOT_PLAIN, RECORD_WORDS, SORTERS, VECTOR_BYTES

NEWLINE, RETURN, QUOTE = np.uint8(10), np.uint8(13), np.uint8(34)
MINUS, POINT, ZERO = 45, 46, 48
MAX_DIGITS = 18  # fits int64
MIX = np.uint64(0x9E3779B97F4A7C15)
LOW_HALF = np.uint64(0xFFFFFFFF)
TAG_SHIFT = np.uint64(40)  # a slot of the table keeps 24 bits of the hash above 40 bits of place
PLACE_MASK = np.uint64((1 << 40) - 1)


@njit
def first_bytes(word, count):
    """The lowest bytes of a word, zeros above."""
    return word if count >= 8 else word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@njit
def hash_bytes(buffer, start, length):
    """Hash some bytes, eight at a time."""
    value = np.uint64(length) * MIX
    for done in range(0, length, 8):
        value = (value ^ first_bytes(load_word(buffer, start + done), length - done)) * MIX
        value ^= value >> np.uint64(32)
    return value


@njit
def words_of(info):
    """Length in words of the record that begins with this word."""
    return RECORD_WORDS + ((np.int64(info & LOW_HALF) + 7) >> 3)


# -- rows of a text table ------------------------------------------------------------------------------------


@njit
def scan_rows(buffer, begin, end, delimiter, role_of_column, n_columns, starts, lengths, hashes):
    """Find and hash the wanted cells of the next AHEAD rows; return how many and the place after them.

    The number is NOT_PLAIN at anything unusual.
    """
    delimiter = np.uint8(delimiter)
    row = 0
    place = begin
    while place < end and row < AHEAD:
        if buffer[place] == NEWLINE:
            place += 1
            continue
        for column in range(n_columns):
            quoted = buffer[place] == QUOTE
            if quoted:
                place += 1
            start = place
            while True:
                if quoted:
                    marks = marked_bytes(buffer, place, QUOTE, NEWLINE, QUOTE, NEWLINE)
                else:
                    marks = marked_bytes(buffer, place, QUOTE, NEWLINE, delimiter, RETURN)
                if marks:
                    place += np.int64(trailing_zeros(marks))
                    break
                place += VECTOR_BYTES
                if place >= end:
                    break
            stop = min(place, end)
            role = role_of_column[column]
            if role >= 0:
                cell = role * AHEAD + row
                starts[cell] = start
                lengths[cell] = stop - start
                hashes[cell] = hash_bytes(buffer, start, stop - start)
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


@njit
def code_cells(buffer, starts, lengths, hashes, first, count, slots, n_slots, words, state, touched, codes, done):
    """Give the cells from `first` on the codes of their texts and count them; new texts are stored with a new code."""
    mask = np.uint64(n_slots - 1)
    seen = np.uint64(0)
    # Ask the memory for all entries at once: one after the other would wait for each.
    for row in range(count):
        touched[row] = slots[hashes[first + row] & mask]
    for row in range(count):
        seen ^= words[touched[row] & PLACE_MASK]
    for row in range(count):
        value = hashes[first + row]
        start = np.int64(starts[first + row])
        length = np.int64(lengths[first + row])
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
                for byte in range(0, length, 8):
                    words[into] = first_bytes(load_word(buffer, start + byte), length - byte)
                    into += 1
                slots[slot] = (tag << TAG_SHIFT) | np.uint64(place)
                codes[done + row] = np.int32(state[1])
                state[0] = into
                state[1] += 1
                break
            if entry >> TAG_SHIFT == tag:
                place = np.int64(entry & PLACE_MASK)
                info = words[place]
                if np.int64(info & LOW_HALF) == length and words[place + 1] == value:
                    at = place + RECORD_WORDS
                    same = True
                    for byte in range(0, length, 8):
                        if words[at] != first_bytes(load_word(buffer, start + byte), length - byte):
                            same = False
                            break
                        at += 1
                    if same:
                        words[place + 2] += np.uint64(1)
                        codes[done + row] = np.int32(info >> np.uint64(32))
                        break
            slot = (slot + np.uint64(1)) & mask
    state[2] = np.int64(seen & np.uint64(1))


@njit
def has_room(n_slots, n_words, state, lengths, first, count):
    """Tell whether a table can take these cells even if all are new, and stays at most two thirds full."""
    needed = count * (RECORD_WORDS + 1)
    for row in range(count):
        needed += np.int64(lengths[first + row]) >> 3
    return state[0] + needed <= n_words and 3 * (state[1] + count) <= 2 * n_slots


def encode_lines(
    buffer, begin, end, delimiter, role_of_column, n_columns,
    slots_0, n_slots_0, words_0, n_words_0, state_0, codes_0,
    slots_1, n_slots_1, words_1, n_words_1, state_1, codes_1,
    slots_2, n_slots_2, words_2, n_words_2, state_2, codes_2,
    done, starts, lengths, hashes, touched, found,
):  # fmt: skip
    """Encode whole lines, a few rows at a time so that all stays in the fastest memory; each role has its table."""
    place = begin
    while place < end:
        count, after = scan_rows(
            buffer, place, end, delimiter, role_of_column, n_columns, starts, lengths, hashes
        )  # fmt: skip
        if count < 0:
            done = NOT_PLAIN
            break
        if not (
            has_room(n_slots_0, n_words_0, state_0, lengths, 0, count)
            and has_room(n_slots_1, n_words_1, state_1, lengths, AHEAD, count)
            and has_room(n_slots_2, n_words_2, state_2, lengths, 2 * AHEAD, count)
        ):
            break
        code_cells(
            buffer, starts, lengths, hashes, 0, count,
            slots_0, n_slots_0, words_0, state_0, touched, codes_0, done,
        )  # fmt: skip
        code_cells(
            buffer, starts, lengths, hashes, AHEAD, count,
            slots_1, n_slots_1, words_1, state_1, touched, codes_1, done,
        )  # fmt: skip
        code_cells(
            buffer, starts, lengths, hashes, 2 * AHEAD, count,
            slots_2, n_slots_2, words_2, state_2, touched, codes_2, done,
        )  # fmt: skip
        done += count
        place = after
    found[0] = done
    found[1] = place


# -- tables of names -----------------------------------------------------------------------------------------


def look_up(other, used, slots, n_slots, words, part, n_parts, places, touched, codes, found):
    """Find the names of another table in this one: their codes, -1 for those that are not here.

    Threads share the work: each takes every `n_parts`-th batch of names.
    """
    mask = np.uint64(n_slots - 1)
    seen = np.uint64(0)
    place = np.int64(FIRST_PLACE)
    code = 0
    batch = 0
    while place < used:
        mine = batch % n_parts == part
        count = 0
        while count < AHEAD and place < used:
            if mine:
                places[count] = place
                touched[count] = slots[other[place + 1] & mask]
            place += words_of(other[place])
            count += 1
        if mine:
            for name in range(count):
                seen ^= words[touched[name] & PLACE_MASK]
            for name in range(count):
                codes[code + name] = np.int32(code_of(other, places[name], slots, mask, words))
        code += count
        batch += 1
    found[0] = np.int64(seen & np.uint64(1))


@njit
def code_of(other, place, slots, mask, words):
    """Code of the name that stands in a place of another store, or -1."""
    info, value = other[place], other[place + 1]
    n_words = words_of(info)
    slot = value & mask
    while True:
        entry = slots[slot]
        if entry == 0:
            return np.int64(-1)
        if entry >> TAG_SHIFT == value >> TAG_SHIFT:
            at = np.int64(entry & PLACE_MASK)
            same = (words[at] & LOW_HALF) == (info & LOW_HALF)
            for word in range(RECORD_WORDS, n_words):
                same = same and words[at + word] == other[place + word]
            if same:
                return np.int64(words[at] >> np.uint64(32))
        slot = (slot + np.uint64(1)) & mask


def rehash(words, used, slots, n_slots):
    """Enter every stored name into a new, larger table."""
    mask = np.uint64(n_slots - 1)
    place = np.int64(FIRST_PLACE)
    while place < used:
        value = words[place + 1]
        slot = value & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = ((value >> TAG_SHIFT) << TAG_SHIFT) | np.uint64(place)
        place += words_of(words[place])


def join_names(words, used, codes, first, counts, joined, begin, lengths, found):
    """Write the stored names whose codes are `first` or more, a line each, from `begin` on; take down all counts."""
    place = np.int64(FIRST_PLACE)
    out = begin
    name = 0
    while place < used:
        n_words = words_of(words[place])
        counts[name] = np.int64(words[place + 2])
        if codes[name] >= first:
            length = np.int64(words[place] & LOW_HALF)
            for word in range(RECORD_WORDS, n_words):  # what is too much, the next name overwrites
                store_word(joined, out + 8 * (word - RECORD_WORDS), words[place + word])
            out += length
            joined[out] = NEWLINE
            out += 1
            lengths[codes[name]] = length
        name += 1
        place += n_words
    found[0] = out


# -- names, a line each --------------------------------------------------------------------------------------


def join_ordered(joined, n_bytes, lengths, n_names, order, places, out):
    """Write names in another order."""
    place = 0
    for code in range(n_names):
        places[code] = place
        place += lengths[code] + 1
    place = 0
    for position in range(n_names):
        code = order[position]
        begin = places[code]
        length = lengths[code] + 1
        if max(begin, place) + length + 7 <= n_bytes:
            for byte in range(0, length, 8):  # what is too much, the next name overwrites
                store_word(out, place + byte, load_word(joined, begin + byte))
        else:
            for byte in range(length):
                out[place + byte] = joined[begin + byte]
        place += length


def common_prefix(joined, lengths, n_names, found):
    """Count the bytes with which all names begin."""
    prefix = lengths[0]
    place = 0
    for code in range(n_names):
        same = 0
        while same < prefix and same < lengths[code] and joined[place + same] == joined[same]:
            same += 1
        prefix = min(prefix, same)
        place += lengths[code] + 1
    found[0] = prefix


def sort_words(joined, lengths, n_names, skip, keys, width, found):
    """Write names as numbers that sort as their bytes do, `width` to a name; stop at a zero byte."""
    found[0] = 0
    place = 0
    for code in range(n_names):
        for word in range(width):
            value = np.uint64(0)
            for byte in range(8):
                at = skip + word * 8 + byte
                value <<= np.uint64(8)
                if at < lengths[code]:
                    if joined[place + at] == 0:
                        return  # the zero that fills up short names would be taken for it
                    value |= np.uint64(joined[place + at])
            keys[code * width + word] = value
        place += lengths[code] + 1
    found[0] = 1


def whole_numbers(joined, lengths, n_names, cut, numbers, found):
    """Read names as whole numbers; stop at one that Python would write otherwise, `cut` bytes left out."""
    found[0] = 0
    place = 0
    for code in range(n_names):
        first = place
        last = place + lengths[code] - cut
        negative = last > first and joined[first] == MINUS
        if negative:
            first += 1
        n_digits = last - first
        if n_digits < 1 or n_digits > MAX_DIGITS or (joined[first] == ZERO and (n_digits > 1 or negative)):
            return
        value = np.int64(0)
        for at in range(first, last):
            digit = np.int64(joined[at]) - ZERO
            if digit < 0 or digit > 9:
                return
            value = value * 10 + digit
        if cut and (joined[last] != POINT or joined[last + 1] != ZERO):
            return
        numbers[code] = -value if negative else value
        place += lengths[code] + 1
    found[0] = 1


# -- codes and rows ------------------------------------------------------------------------------------------


def code_hashes(hashes, n_rows, slots, slot_codes, n_slots, first, codes, found):
    """Number distinct hashes in order of appearance; `first` gets the row of each."""
    mask = np.uint64(n_slots - 1)
    known = 0
    for row in range(n_rows):
        value = hashes[row]
        slot = value & mask
        while True:
            code = slot_codes[slot]
            if code < 0:
                slots[slot] = value
                slot_codes[slot] = np.int32(known)
                first[known] = np.int32(row)
                codes[row] = np.int32(known)
                known += 1
                break
            if slots[slot] == value:
                codes[row] = code
                break
            slot = (slot + np.uint64(1)) & mask
    found[0] = known


def place_rows(item, annotator, label, n_rows, annotator_rank, label_rank, next_place, n_classes, keys):
    """Put annotator and label of each row, as one number, in the next place of its item."""
    for row in range(n_rows):
        place = np.int64(next_place[item[row]])
        next_place[item[row]] = place + 1
        keys[place] = np.int64(annotator_rank[annotator[row]]) * n_classes + label_rank[label[row]]


def sort_within_items(start, begin, end, n_classes, insertion_limit, keys, annotator, label):
    """Sort the keys of each item in begin..end-1, if they are few, and take them apart."""
    for item in range(begin, end):
        first, last = np.int64(start[item]), np.int64(start[item + 1])
        if last - first <= insertion_limit:
            for place in range(first + 1, last):
                key = keys[place]
                hole = place
                while hole > first and keys[hole - 1] > key:
                    keys[hole] = keys[hole - 1]
                    hole -= 1
                keys[hole] = key
        for place in range(first, last):
            whole = keys[place] // n_classes
            annotator[place] = whole
            label[place] = keys[place] - whole * n_classes


# One loop, compiled for each combination of types.
globals().update({name: place_rows if name.startswith("place") else sort_within_items for name in SORTERS})
