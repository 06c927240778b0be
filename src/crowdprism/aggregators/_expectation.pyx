# cython: language_level=3, wraparound=False, cdivision=True, initializedcheck=False
"""The two compiled passes over a group of items; `blocks` calls them, and has the same in SciPy.

Without weights, probabilities are multiplied and rescaled now and then, so that neither exp nor log runs per annotation.
With weights, a weight is a power of the likelihood: tables then hold logs (`logs`).

In both, items go from `first` to before `last`; `gold` has the known class of each, -1 where there is none; `start`
(n_columns,) is the class prior or its log; `rows` gets the class probabilities, one row per item or one that is used
again, or has them already (mode GIVEN); `totals` gets their sums over annotated items; `carried` is the log likelihood so
far and a factor whose log belongs to it, [0, 1] at the start. A group may come in several calls, which go on with
`counts`, `totals` and `carried`, so that the parts change no bit. setup.py turns bounds checks off, except in the build
that the tests make.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    SOFT = 0
    HARD = 1
    GIVEN = 2
    RESCALE_EVERY = 8  # annotations; so many factors of at least 1e-30 stay above the smallest double

cdef double SMALL = 1e-50  # beyond these the running product of normalisers is logged, before it can leave the range
cdef double LARGE = 1e50
cdef double TIE = 1e-9  # as in `blocks`


cdef inline void take_out(double *log_likelihood, double *scale, double factor) noexcept nogil:
    """Multiply the running product by a factor, and log it where it would leave the range."""
    scale[0] *= factor
    if scale[0] < SMALL or scale[0] > LARGE:
        log_likelihood[0] += log(scale[0])
        scale[0] = 1.0


cdef inline void begin_row(
    double[:, ::1] rows, Py_ssize_t at, const double[::1] start, Py_ssize_t known, Py_ssize_t n_classes, double nothing
) noexcept nogil:
    """Begin with the class prior, or with that of the known class and nothing for others; a class may have subtypes."""
    cdef Py_ssize_t k, width = rows.shape[1]
    for k in range(width):
        rows[at, k] = start[k] if known < 0 or k * n_classes // width == known else nothing


cdef inline double normalize(double[:, ::1] rows, Py_ssize_t at) noexcept nogil:
    """Divide a row by its sum, which is returned."""
    cdef Py_ssize_t k
    cdef double total = 0.0, share
    for k in range(rows.shape[1]):
        total += rows[at, k]
    share = 1.0 / total
    for k in range(rows.shape[1]):
        rows[at, k] *= share
    return total


cdef inline double harden(double[:, ::1] rows, Py_ssize_t at) noexcept nogil:
    """Give the largest entries of a row equal shares of 1 and the others nothing; returns the largest."""
    cdef Py_ssize_t k, best = 0
    cdef double largest = 0.0
    for k in range(rows.shape[1]):
        largest = max(largest, rows[at, k])
    for k in range(rows.shape[1]):
        if rows[at, k] >= largest * (1.0 - TIE):
            best += 1
    for k in range(rows.shape[1]):
        rows[at, k] = 1.0 / best if rows[at, k] >= largest * (1.0 - TIE) else 0.0
    return largest


cdef inline double exponentiate(double[:, ::1] rows, Py_ssize_t at) noexcept nogil:
    """Turn logs into numbers of which the largest is 1; returns the log of the factor taken out."""
    cdef Py_ssize_t k
    cdef double top = rows[at, 0]
    for k in range(1, rows.shape[1]):
        top = max(top, rows[at, k])
    for k in range(rows.shape[1]):
        rows[at, k] = exp(rows[at, k] - top)
    return top


def confusion(
    const int64_t[::1] item_start,
    const int32_t[::1] gold,
    Py_ssize_t n_classes,
    const uint32_t[::1] cell,  # (n_annotations,) row of `table` and `counts`
    const float[::1] weight,
    const double[:, ::1] table,  # (n_cells, n_columns) probability of the cell's label in each class, or its log
    const double[::1] start,
    Py_ssize_t first,
    Py_ssize_t last,
    int mode,
    bint logs,
    double[:, ::1] rows,
    double[:, ::1] counts,  # (n_cells, n_columns) gets the expected weight of annotations
    double[::1] totals,
    double[::1] carried,
):
    """Gather the table rows of each item's annotations, normalise their product, add it to the counts of its cells."""
    cdef Py_ssize_t item, j, k, begin, end, done, stop, at = 0, width = rows.shape[1]
    cdef Py_ssize_t stride = rows.shape[0] == last - first
    cdef bint weighted = weight is not None, some_known = gold is not None
    cdef uint32_t c
    cdef double w, mass, log_likelihood = carried[0], scale = carried[1]
    with nogil:
        for item in range(first, last):
            at = (item - first) * stride
            begin, end = item_start[item], item_start[item + 1]
            mass = end - begin
            if weighted:
                mass = 0.0
                for j in range(begin, end):
                    mass += weight[j]
            if mode != GIVEN:
                begin_row(rows, at, start, gold[item] if some_known else -1, n_classes, -INFINITY if logs else 0.0)
                done = begin
                while done < end:
                    stop = end if logs else min(done + RESCALE_EVERY, end)
                    for j in range(done, stop):
                        c = cell[j]
                        if logs:
                            w = weight[j] if weighted else 1.0
                            for k in range(width):
                                rows[at, k] += w * table[c, k]
                        else:
                            for k in range(width):
                                rows[at, k] *= table[c, k]
                    done = stop
                    if done < end:
                        take_out(&log_likelihood, &scale, normalize(rows, at))
                if logs:
                    log_likelihood += exponentiate(rows, at)
                take_out(&log_likelihood, &scale, harden(rows, at) if mode == HARD and mass > 0.0 else normalize(rows, at))
            if mass > 0.0:
                for k in range(width):
                    totals[k] += rows[at, k]
                for j in range(begin, end):
                    c = cell[j]
                    w = weight[j] if weighted else 1.0
                    for k in range(width):
                        counts[c, k] += w * rows[at, k]
    carried[0], carried[1] = log_likelihood, scale


def vote(
    const int64_t[::1] item_start,
    const int32_t[::1] gold,
    Py_ssize_t n_classes,
    const uint32_t[::1] source,  # (n_annotations,) entry of `odds` and `hits`
    const int32_t[::1] label,  # (n_annotations,)
    const float[::1] weight,
    const double[::1] odds,  # (n_sources,) by which an annotation multiplies the class it names, or their logs
    const double[::1] start,
    Py_ssize_t first,
    Py_ssize_t last,
    int mode,
    bint logs,
    double[:, ::1] rows,
    double[::1] hits,  # (n_sources,) gets the expected weight of right annotations
    double[::1] totals,
    double[::1] carried,
):
    """Let each annotation multiply the odds of the class it names; the work per annotation does not grow with classes."""
    cdef Py_ssize_t item, j, k, begin, end, done, stop, at = 0, width = rows.shape[1]
    cdef Py_ssize_t stride = rows.shape[0] == last - first
    cdef bint weighted = weight is not None, some_known = gold is not None
    cdef double mass, log_likelihood = carried[0], scale = carried[1]
    with nogil:
        for item in range(first, last):
            at = (item - first) * stride
            begin, end = item_start[item], item_start[item + 1]
            mass = end - begin
            if weighted:
                mass = 0.0
                for j in range(begin, end):
                    mass += weight[j]
            if mode != GIVEN:
                begin_row(rows, at, start, gold[item] if some_known else -1, n_classes, -INFINITY if logs else 0.0)
                done = begin
                while done < end:
                    stop = end if logs else min(done + RESCALE_EVERY, end)
                    for j in range(done, stop):
                        if logs:
                            rows[at, label[j]] += (weight[j] if weighted else 1.0) * odds[source[j]]
                        else:
                            rows[at, label[j]] *= odds[source[j]]
                    done = stop
                    if done < end:
                        take_out(&log_likelihood, &scale, normalize(rows, at))
                if logs:
                    log_likelihood += exponentiate(rows, at)
                take_out(&log_likelihood, &scale, harden(rows, at) if mode == HARD and mass > 0.0 else normalize(rows, at))
            if mass > 0.0:
                for k in range(width):
                    totals[k] += rows[at, k]
                for j in range(begin, end):
                    hits[source[j]] += (weight[j] if weighted else 1.0) * rows[at, label[j]]
    carried[0], carried[1] = log_likelihood, scale
