"""A work queue without locks: slots are claimed with atomics, and each item by one thread."""

# Written as its users write it.
# ruff: noqa: SIM108, UP018, RUF046

import numpy as np

import kernelcore as wp


@wp.func
def collatz_length(n: int) -> int:
    steps = int(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@wp.kernel
def produce(
    threshold: int,
    head: wp.array(dtype=int),
    queue: wp.array(dtype=int),
):
    tid = wp.tid()
    n = tid + 1
    if collatz_length(n) >= threshold:
        slot = wp.atomic_add(head, 0, 1)
        if slot < queue.shape[0]:
            queue[slot] = n


@wp.kernel
def consume(
    head: wp.array(dtype=int),
    next_item: wp.array(dtype=int),
    queue: wp.array(dtype=int),
    owner: wp.array(dtype=int),
    taken: wp.array(dtype=int),
    longest: wp.array(dtype=int),
):
    tid = wp.tid()
    count = wp.min(head[0], queue.shape[0])
    item = wp.atomic_add(next_item, 0, 1)
    while item < count:
        if wp.atomic_cas(owner, item, -1, tid) == -1:
            wp.atomic_add(taken, item, 1)
            wp.atomic_max(longest, 0, collatz_length(queue[item]))
        item = wp.atomic_add(next_item, 0, 1)


def queue_reference(count, threshold):
    lengths = []
    for start in range(1, count + 1):
        n, steps = start, 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        lengths.append(steps)
    found = np.array(lengths)
    return np.flatnonzero(found >= threshold) + 1, found.max()
