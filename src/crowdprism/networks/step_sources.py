"""The loops of `step_kernels`, as numba compiles them; only making machine code imports this module.

Arrays come as pointers, tables row by row. Sums over classes are kept in double precision where they decide a
logarithm.
"""

# The functions have the types that `step_kernels.KERNELS` gives them; they are never called as Python.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

from crowdprism.kernel_scratch import floats_at

TINIEST = 1e-300


@njit
def _softmax(outputs, n_rows, k, probs, log_probs):
    for j in range(n_rows):
        largest = np.float64(outputs[j * k])
        for c in range(k):
            largest = max(largest, np.float64(outputs[j * k + c]))
        norm = 0.0
        for c in range(k):
            probs[j * k + c] = np.exp(np.float64(outputs[j * k + c]) - largest)
            norm += probs[j * k + c]
        shift = largest + np.log(norm)
        for c in range(k):
            probs[j * k + c] /= norm
            log_probs[j * k + c] = np.float64(outputs[j * k + c]) - shift


@njit
def _coupled(probs, confusions, place, label, item, weight, n, k, weighted, scale, by_label, by_class):
    """-Σ w log Σ_k f_k C_k; scale times the posteriors and w, by annotation, and taken from those by class."""
    total = 0.0
    for a in range(n):
        row = np.uint64(item[a]) * k
        cell = np.uint64(place[a]) * k * k + np.uint64(label[a])
        out = a * k
        likelihood = 0.0
        for c in range(k):
            joint = probs[row + c] * np.float64(confusions[cell + c * k])
            by_label[out + c] = np.float32(joint)
            likelihood += joint
        likelihood = max(likelihood, TINIEST)
        counted = np.float64(weight[a]) if weighted else 1.0
        total -= counted * np.log(likelihood)
        share = scale * counted / likelihood
        for c in range(k):
            part = np.float64(by_label[out + c]) * share
            by_label[out + c] = np.float32(part)
            by_class[row + c] -= part
    return total


@njit
def _joint(
    log_probs, confusions, place, label, item, weight, n, n_rows, k, weighted, scale, temper, counts, by_label, by_class
):
    """-Σ_items log Σ_k f_k Π C_k^e, e = w max(1, Σ w)^(temper - 1); `log_probs` become scaled posteriors."""
    for j in range(n_rows):
        counts[j] = 0.0
    for a in range(n):
        counts[np.uint64(item[a])] += np.float64(weight[a]) if weighted else 1.0
    for j in range(n_rows):
        counts[j] = np.exp((temper - 1.0) * np.log(max(counts[j], 1.0)))
    for a in range(n):
        row = np.uint64(item[a])
        exponent = counts[row] * (np.float64(weight[a]) if weighted else 1.0)
        cell = np.uint64(place[a]) * k * k + np.uint64(label[a])
        for c in range(k):
            log_probs[row * k + c] += exponent * np.log(max(np.float64(confusions[cell + c * k]), TINIEST))
    total = 0.0
    for j in range(n_rows):
        row = j * k
        largest = log_probs[row]
        for c in range(k):
            largest = max(largest, log_probs[row + c])
        norm = 0.0
        for c in range(k):
            log_probs[row + c] = np.exp(log_probs[row + c] - largest)
            norm += log_probs[row + c]
        total -= largest + np.log(norm)
        for c in range(k):
            log_probs[row + c] *= scale / norm
            by_class[row + c] -= log_probs[row + c]
    for a in range(n):
        row = np.uint64(item[a])
        exponent = counts[row] * (np.float64(weight[a]) if weighted else 1.0)
        for c in range(k):
            by_label[a * k + c] = np.float32(exponent * log_probs[row * k + c])
    return total


@njit
def _scale_rows(confusions, sums, k, first, last):
    """Confusion rows times their factors, in place, from row `first` to before `last`."""
    for j in range(first * k, last * k):
        by = sums[j]
        for c in range(k):
            confusions[j * k + c] *= by


@njit
def _subtract_columns(gradient, place, label, by_label, n, k):
    """Subtract what each annotation has for each true class from its column."""
    for a in range(n):
        cell = np.uint64(place[a]) * k * k + np.uint64(label[a])
        for c in range(k):
            gradient[cell + c * k] -= by_label[a * k + c]


def step(
    outputs, confusions, place, label, item, weight, n, n_rows, rows, k, weighted, joint, with_volume, whole, settings,
    probs, log_probs, by_class, counts, gram, inverse, by_label, sums, by_output, values,
):  # fmt: skip
    """Loss, volume, and their gradient by the network's outputs.

    `confusions` become the gradient by their logits if `whole`; else `scale_rows` and `subtract_columns` do the rest.
    `settings` are the scale of the loss, the temper, the weight of the volume, its relative and its least jitter.
    `values` become the sum of the losses and the volume.
    """
    n, n_rows, rows, k = np.uint64(n), np.uint64(n_rows), np.uint64(rows), np.uint64(k)
    size = n_rows * k
    _softmax(outputs, n_rows, k, probs, log_probs)
    for j in range(size):
        by_class[j] = 0.0
    scale = settings[0]
    if joint:
        values[0] = _joint(
            log_probs, confusions, place, label, item, weight, n, n_rows, k, weighted, scale, settings[1], counts,
            by_label, by_class,
        )  # fmt: skip
    else:
        values[0] = _coupled(probs, confusions, place, label, item, weight, n, k, weighted, scale, by_label, by_class)
    values[1] = 0.0
    if with_volume:
        values[1] = _volume(probs, n_rows, k, settings, gram, inverse, by_class)
    for j in range(n_rows):  # from gradients by log probabilities to those by outputs
        total = 0.0
        for c in range(k):
            total += by_class[j * k + c]
        for c in range(k):
            by_output[j * k + c] = np.float32(by_class[j * k + c] - probs[j * k + c] * total)
    for j in range(rows * k):
        sums[j] = np.float32(0.0)
    for a in range(n):
        row = np.uint64(place[a]) * k
        for c in range(k):
            sums[row + c] += by_label[a * k + c]
    if whole:
        _scale_rows(confusions, sums, k, np.uint64(0), rows)
        _subtract_columns(confusions, place, label, by_label, n, k)


def scale_rows(confusions, sums, k, first, last):
    """The first half of what remains of the table's gradient, for a share of the rows."""
    _scale_rows(confusions, sums, np.uint64(k), np.uint64(first), np.uint64(last))


def subtract_columns(gradient, place, label, by_label, n, k):
    """The second half."""
    _subtract_columns(gradient, place, label, by_label, np.uint64(n), np.uint64(k))


@njit
def _volume(probs, n_rows, k, settings, gram, inverse, by_class):
    """Log det of the jittered Σ f fᵀ, NaN where it has no factor; `by_class` is lowered by its weighted gradient."""
    weight, jitter, tiny = settings[2], settings[3], settings[4]
    one = np.uint64(1)
    for j in range(k * k):
        gram[j] = 0.0
    for j in range(n_rows):
        for c in range(k):
            left = probs[j * k + c]
            for d in range(c + one):
                gram[c * k + d] += left * probs[j * k + d]
    trace = 0.0
    for c in range(k):
        trace += gram[c * k + c]
    lift = jitter * trace / np.float64(k) + tiny
    logarithm = 0.0
    for c in range(k):  # Cholesky, row by row, in the lower triangle
        gram[c * k + c] += lift
        for d in range(c + one):
            rest = gram[c * k + d]
            for e in range(d):
                rest -= gram[c * k + e] * gram[d * k + e]
            if d < c:
                gram[c * k + d] = rest / gram[d * k + d]
            elif rest > 0.0:
                gram[c * k + c] = np.sqrt(rest)
                logarithm += np.log(rest)
            else:
                return np.nan
    for c in range(k):  # the factor's inverse, in the lower triangle
        inverse[c * k + c] = 1.0 / gram[c * k + c]
        for d in range(c):
            rest = 0.0
            for e in range(d, c):
                rest -= gram[c * k + e] * inverse[e * k + d]
            inverse[c * k + d] = rest / gram[c * k + c]
    spread = 0.0
    for c in range(k):  # the Gram's inverse, over the factor
        for d in range(c + one):
            rest = 0.0
            for e in range(c, k):
                rest += inverse[e * k + c] * inverse[e * k + d]
            gram[c * k + d] = rest
            gram[d * k + c] = rest
        spread += gram[c * k + c]
    for c in range(k):
        gram[c * k + c] += jitter / np.float64(k) * spread  # the jitter follows the trace
    for j in range(n_rows):
        for c in range(k):
            rest = 0.0
            for d in range(k):
                rest += gram[c * k + d] * probs[j * k + d]
            by_class[j * k + c] -= weight * 2.0 * rest * probs[j * k + c]
    return logarithm


def add_pull(gradient, confusions, pull, settings, k, first, last):
    """Subtract the strength times a gradient by confusions, taken through the softmax, from that by logits."""
    k = np.uint64(k)
    strength = np.float32(settings[0])
    for j in range(np.uint64(first) * k, np.uint64(last) * k):
        mean = np.float32(0.0)
        for c in range(k):
            mean += pull[j * k + c] * confusions[j * k + c]
        for c in range(k):
            gradient[j * k + c] -= strength * confusions[j * k + c] * (pull[j * k + c] - mean)


@njit
def _adam(values, mean, square, gradient, here, there, width, steps, settings, s, decoupled):
    """One Adam step, the `steps`-th, of `width` numbers; the settings stand at `s`."""
    rate, beta1, beta2 = settings[s], settings[s + np.uint64(1)], settings[s + np.uint64(2)]
    epsilon, decay = settings[s + np.uint64(3)], settings[s + np.uint64(4)]
    keep1, keep2 = np.float32(beta1), np.float32(beta2)
    add1, add2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)
    shrink = np.float32(1.0 - rate * decay if decoupled else 1.0)
    pull = np.float32(0.0 if decoupled else decay)
    small = np.float32(epsilon)
    step = np.float32(rate / (1.0 - np.exp(steps * np.log(beta1))))
    root = np.float32(1.0 / np.sqrt(1.0 - np.exp(steps * np.log(beta2))))
    for c in range(width):
        value = values[here + c] * shrink
        g = gradient[there + c] + pull * value
        m = mean[here + c] * keep1 + g * add1
        v = square[here + c] * keep2 + g * g * add2
        mean[here + c] = m
        square[here + c] = v
        values[here + c] = value - step * m / (np.sqrt(v) * root + small)


def adam_rows(values, mean, square, clock, touched, gradient, settings, width, decoupled, first, last):
    """One Adam step of the touched rows `first` to before `last`; each row has its own clock."""
    width, zero = np.uint64(width), np.uint64(0)
    for r in range(np.uint64(first), np.uint64(last)):
        row = np.uint64(touched[r])
        clock[row] += 1
        steps = np.float64(clock[row])
        _adam(values, mean, square, gradient, row * width, r * width, width, steps, settings, zero, decoupled)


def adam_tensors(addresses, sizes, clock, settings, n, decoupled):
    """One Adam step of tensors, at the addresses of values, gradient (0 if there is none), mean and square."""
    zero = np.uint64(0)
    for t in range(np.uint64(n)):
        at = np.uint64(4) * t
        if addresses[at + np.uint64(1)] == 0:
            continue
        clock[t] += np.float32(1.0)
        values, gradient = floats_at(addresses[at]), floats_at(addresses[at + np.uint64(1)])
        mean, square = floats_at(addresses[at + np.uint64(2)]), floats_at(addresses[at + np.uint64(3)])
        width, steps = np.uint64(sizes[t]), np.float64(clock[t])
        _adam(values, mean, square, gradient, zero, zero, width, steps, settings, np.uint64(5) * t, decoupled)


def gather(
    start, annotator, label, index, cuts, n_batches, row, item, gathered, labels, place, touched, n_touched, seen
):
    """The annotations of the items at `index`, batch by batch, and each batch's distinct annotators as they appear.

    `cuts` are where batches begin in `index`; `n_touched` counts the distinct annotators of each, which stand in
    `touched` where the batch's annotations stand elsewhere. `seen` has a place for each annotator, -1 before and after.
    """
    at = np.uint64(0)
    one = np.uint64(1)
    for b in range(np.uint64(n_batches)):
        begin, first = np.uint64(cuts[b]), at
        distinct = np.uint64(0)
        for j in range(begin, np.uint64(cuts[b + one])):
            chosen = np.uint64(index[j])
            for a in range(np.uint64(start[chosen]), np.uint64(start[chosen + one])):
                who = np.uint64(annotator[a])
                if seen[who] < 0:
                    seen[who] = distinct
                    touched[first + distinct] = who
                    distinct += one
                row[at] = a
                item[at] = j - begin
                gathered[at] = who
                labels[at] = label[a]
                place[at] = seen[who]
                at += one
        for j in range(distinct):
            seen[np.uint64(touched[first + j])] = -1
        n_touched[b] = distinct
