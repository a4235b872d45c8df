"""Functions that exercise branches, loops, exits and assignment."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.programs import F64, F64_2D, I32, M, X, case


@case((X, 1), (X, 3), (X, 9))
def short_circuit_guards_a_load(x: F64, i: int):
    if i < len(x) and x[i] > 0.0:
        return 1
    if i >= len(x) or x[i] < 0.0:
        return 2
    return 3


@case((X,), (X[:0],))
def weak_sum(x: F64):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


@case((X,))
def integer_zero_becomes_a_float_sum(x: F64):
    s = 0
    for i in range(len(x)):
        s = s + x[i]
    return s


@case((M,))
def nested_loops_widen_both_levels(m: F64_2D):
    total = 0.0
    best = 0.0
    for i in range(m.shape[0]):
        row = 0.0
        for j in range(m.shape[1]):
            row = row + m[i, j]
            total = total + 1.0
        if row > best:
            best = row
        total = total + best
    return total, best


@case((0.5,), (3.0,))
def weak_choice_meets_a_wide_value(x: kc.float64):
    sign = 1.0
    if x > 1.0:
        sign = -1.0
    return sign * x


@case((3,), (0,), (-2,))
def counts_stay_integers(n: int):
    k = 0
    total = 0
    for i in range(n):
        k += 1
        total = total + i * k
    return k, total, total // 2


@case((10,), (0,))
def range_with_three_bounds(n: int):
    s = 0
    for i in range(2, n, 3):
        s += i
    for i in range(n, 0, -2):
        s = s * 2 + i
    return s


@case((10, 3), (10, 20), (0, 0))
def break_leaves_the_inner_loop_only(n: int, stop: int):
    s = 0
    for i in range(1, n, 2):
        for j in range(i):
            if i * j > stop:
                break
            s += i * j
        s += 1
    return s


@case((10, 3), (10, 20), (0, 0))
def continue_skips_the_rest(n: int, skip: int):
    s = 0
    for i in range(n):
        if i % 3 == skip % 3:
            continue
        s += i
        if s > 20:
            continue
        s += 100
    return s


@case((10, 4), (10, 40), (3, 1))
def break_and_continue(n: int, m: int):
    s = 0
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if i % 2 == 0:
            s += 2
            continue
        if s > m:
            s = -s
            break
        s += i
    return s, i


@case((27,), (1,), (97,))
def while_with_compound_condition(n: int):
    steps = 0
    while n != 1 and steps < 50:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps, n


@case((X, 2.0), (X, 7.0))
def return_from_a_loop(x: F64, key: kc.float64):
    for i in range(len(x)):
        if x[i] == key:
            return i, x[i]
    return -1, 0.0


@case((M, 4.0), (M, 0.0), (M, 70.0))
def return_from_nested_loops(m: F64_2D, key: kc.float64):
    count = 0
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            count += 1
            if m[i, j] == key:
                return count, 1.0
        count += 100
    return count, 0.5


@case((5.0,), (-1.0,), (0.25,))
def return_in_every_branch(x: kc.float64):
    if x > 1.0:
        return 2
    elif x < 0.0:
        return 3
    else:
        y = x + 1.0
        if y > 1.2:
            return 4
    return 5


@case((2.0,), (-2.0,))
def name_set_wherever_control_goes_on(x: kc.float64):
    if x > 0.0:
        y = x * 2.0
    else:
        return -1.0
    return y + 1.0


@case((2.0, 1), (-2.0, 1), (2.0, -1))
def exit_deep_inside_a_branch(x: kc.float64, n: int):
    if x > 0.0:
        if n < 0:
            return -1.0
        y = x
    else:
        y = 3.0
    return y + 1.0


@case((4,), (0,))
def loop_without_other_end(n: int):
    k = 0
    while True:
        k += n + 1
        if k > 10:
            return k


@case((X.copy(),))
def updates_in_place(x: F64):
    for i in range(len(x)):
        x[i] *= 2.0
        x[i] += 1
        x[i] -= 0.5
        x[i] /= 4.0
    x[0], x[1] = x[1], x[0]


@case((np.arange(4, dtype=np.int32),))
def integer_elements(a: I32):
    for i in range(len(a)):
        a[i] = a[i] // 2
        a[i] -= 1


@case((X,), (X[:1],))
def index_lives_on_after_the_loop(x: F64):
    i = -1
    for i in range(len(x)):  # noqa: B007
        pass
    return i


@case((M, 4.0), (M, 9.0))
def weak_result_in_a_loop(m: F64_2D, key: kc.float64):
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            if m[i, j] == key:
                return -1.0
            if m[i, j] > key:
                break
    return 2.0 * key


@case((4, 2.0), (0, 2.0))
def body_that_always_returns(n: int, x: kc.float64):
    y = x
    for _ in range(n):
        y *= 3.0
        if y > 1.0:
            return y
        return -y
    return y


@case((5,), (0,))
def weak_literals_only(n: int):
    x = 1.0
    for _ in range(n):
        x = 0.5 * x + 1.0
    return x


@case((np.array([0.7, 0.2, 0.9, 0.8, 0.1]),), (np.array([0.9, 0.9, 0.9]),))
def continue_in_else_beside_a_break(x: F64):
    v = 0.0
    i = -1
    while v < 5.0:
        i += 1
        if x[i] > 0.5:
            w = 1.5 * x[i]
        else:
            v = 9.0
            continue
        v += w
        if v > 3.0:
            break
    return v, i


@case((X, 1.0), (X, 9.0))
def continue_in_else_beside_a_return(x: F64, key: kc.float64):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            w = key * x[i]
        else:
            total -= 1.0
            continue
        total += w
        if total > 20.0:
            return total, i
    return total, -1


@case((X.copy(), X.copy(), 1))
def one_value_for_several_targets(x: F64, y: F64, n: int):
    a = b = x[n] * 2.0
    c = y[n] = x[n] * 3.0
    y[n + 1] = d = x[n] + a
    (e, f) = (g, h) = x[0], x[n]
    k: kc.float64 = x[n] * 0.5
    i = j = n + 1
    i += 1
    p = q = 0.5
    p += x[0]
    return a + b, c, d, e, f, g, h, k, i, j, p, q


@case((X.copy(), 1))
def several_targets_in_a_loop(x: F64, n: int):
    a = b = 0.0
    for i in range(n + 1):
        a = x[i] = b = x[i] + b
    return a, b


@case((3,), (9,), (20,))
def else_that_leaves_by_one_way_or_another(n: int):
    s = 0
    for i in range(1, n, 2):
        j = 0
        while j < i:
            j += 1
            if j < 3:
                k = 2 * j
            elif j == 3:
                continue
            else:
                if i == 7:
                    return s
                break
            s += k
            if s > 50:
                return -s
        s += i
    return s
