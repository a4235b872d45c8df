"""Geometric queries of NVIDIA Warp, as functions that kernels call."""

# Types of the kernel language are values to a type checker.
# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeVarUse=false, reportCallIssue=false
# pyright: reportIndexIssue=false

from __future__ import annotations

from typing import Any, TypeVar

import kernelcore as kc

V = TypeVar("V", bound=kc.types.vector(length=3, dtype=kc.types.AnyFloat))


@kc.func
def closest_point_edge_edge(
    p1: kc.vec3, q1: kc.vec3, p2: kc.vec3, q2: kc.vec3, epsilon: float
) -> kc.vec3:
    """Where two segments are closest.

    Args:
        p1: The start of the first segment.
        q1: Its end.
        p2: The start of the second one.
        q2: Its end.
        epsilon: A segment whose squared length is at most this is a point.

    Returns:
        The weight of ``q1`` in the closest point of the first segment, that of ``q2`` in the one of
        the second, and the distance of the two points.

    Source: Ericson, Real-Time Collision Detection (2005), section 5.1.9.
    """
    d1 = q1 - p1
    d2 = q2 - p2
    r = p1 - p2
    a = kc.dot(d1, d1)
    e = kc.dot(d2, d2)
    f = kc.dot(d2, r)
    s = 0.0
    t = 0.0
    if a <= epsilon:
        if e > epsilon:
            t = kc.clamp(f / e, 0.0, 1.0)
    else:
        c = kc.dot(d1, r)
        if e <= epsilon:
            s = kc.clamp(-c / a, 0.0, 1.0)
        else:
            b = kc.dot(d1, d2)
            # The squared sine between the two, times both squared lengths; 0 where they are
            # parallel, and any point of the first is as good.
            denominator = _difference_of_products(a, e, b, b)
            if denominator > 0.0:
                s = kc.clamp(_difference_of_products(b, f, c, e) / denominator, 0.0, 1.0)
            t = (b * s + f) / e
            if t < 0.0:
                t = 0.0
                s = kc.clamp(-c / a, 0.0, 1.0)
            elif t > 1.0:
                t = 1.0
                s = kc.clamp((b - c) / a, 0.0, 1.0)
    return kc.vec3(s, t, kc.length(p2 + t * d2 - (p1 + s * d1)))


@kc.func
def _difference_of_products(a: float, b: float, c: float, d: float) -> float:
    """``a * b - c * d`` within 1.5 ulp, whatever cancels.

    Source: Jeannerod, Louvet and Muller, Further analysis of Kahan's algorithm (2013).
    """
    product = c * d
    return kc.fma(a, b, -product) - kc.fma(c, d, -product)


@kc.func
def intersect_tri_tri(v0: V, v1: V, v2: V, u0: V, u1: V, u2: V) -> int:
    """1 if two triangles have a point in common, else 0; triangles in one plane, too.

    A vertex closer to the other plane than 1e-6 over twice the area of that triangle is in it.

    Source: Moeller, A fast triangle-triangle intersection test (1997).
    """
    n = kc.cross(v1 - v0, v2 - v0)
    m = kc.cross(u1 - u0, u2 - u0)
    du = _distances(n, v0, u0, u1, u2)
    dv = _distances(m, u0, v0, v1, v2)
    if du[0] * du[1] > 0.0 and du[0] * du[2] > 0.0:
        return 0
    if dv[0] * dv[1] > 0.0 and dv[0] * dv[2] > 0.0:
        return 0
    if (dv[0] == 0.0 and dv[1] == 0.0 and dv[2] == 0.0) or (
        du[0] == 0.0 and du[1] == 0.0 and du[2] == 0.0
    ):
        return _overlap_in_plane(n, v0, v1, v2, u0, u1, u2)
    # The intervals of the line of both planes in the triangles, projected onto an axis.
    axis = _largest(kc.cross(n, m))
    a, b, c, x0, x1 = _interval(type(n)(v0[axis], v1[axis], v2[axis]), dv)
    d, e, f, y0, y1 = _interval(type(n)(u0[axis], u1[axis], u2[axis]), du)
    # Times all four divisors.
    xx = x0 * x1
    yy = y0 * y1
    one = a * xx * yy
    two = d * xx * yy
    one_start = one + b * x1 * yy
    one_end = one + c * x0 * yy
    two_start = two + e * xx * y1
    two_end = two + f * xx * y0
    if kc.max(one_start, one_end) < kc.min(two_start, two_end):
        return 0
    if kc.max(two_start, two_end) < kc.min(one_start, one_end):
        return 0
    return 1


@kc.func
def _distances(normal: V, origin: V, a: V, b: V, c: V) -> Any:
    """How far three points are from a plane, times the length of its normal."""
    found = type(a)()
    found[0] = kc.dot(normal, a - origin)
    found[1] = kc.dot(normal, b - origin)
    found[2] = kc.dot(normal, c - origin)
    for k in range(3):
        if kc.abs(found[k]) < 1e-6:
            found[k] = 0.0
    return found


@kc.func
def _largest(x: V) -> int:
    """The index of the largest component, whatever its sign; the first one of equals."""
    y = kc.abs(x)
    found = 0
    if y[1] > y[0]:
        found = 1
    if y[2] > y[found]:
        found = 2
    return found


@kc.func
def _interval(place: V, distance: V) -> Any:
    """The part of a line that lies in a triangle, whose corners have these places along it.

    Args:
        place: The places of the corners.
        distance: Their distances from a plane that the line lies in; not all are zero.

    Returns:
        ``a, b, c, x, y``: the interval has the ends ``a + b / x`` and ``a + c / y``.
    """
    # The corner that the plane separates from the other two.
    apex = 0
    if distance[0] * distance[1] > 0.0:
        apex = 2
    elif distance[0] * distance[2] > 0.0:
        apex = 1
    elif distance[1] * distance[2] <= 0.0 and distance[0] == 0.0:
        apex = 1 if distance[1] != 0.0 else 2
    one = 1 if apex == 0 else 0
    two = 1 if apex == 2 else 2
    b = (place[one] - place[apex]) * distance[apex]
    c = (place[two] - place[apex]) * distance[apex]
    x = distance[apex] - distance[one]
    y = distance[apex] - distance[two]
    return place[apex], b, c, x, y


@kc.func
def _overlap_in_plane(n: V, v0: V, v1: V, v2: V, u0: V, u1: V, u2: V) -> int:
    """1 if two triangles in a plane with the normal ``n`` have a point in common, else 0."""
    # The projection along the axis closest to the normal; of equals, the one that Warp takes.
    y = kc.abs(n)
    axis = 1
    if y[0] > y[1]:
        axis = 0 if y[0] > y[2] else 2
    elif y[2] > y[1]:
        axis = 2
    i = 1 if axis == 0 else 0
    j = 1 if axis == 2 else 2
    found = _crosses(v0, v1, u0, u1, u2, i, j) or _crosses(v1, v2, u0, u1, u2, i, j)
    found = found or _crosses(v2, v0, u0, u1, u2, i, j)
    found = found or _contains(v0, u0, u1, u2, i, j) or _contains(u0, v0, v1, v2, i, j)
    return int(found)


@kc.func
def _crosses(a: V, b: V, u0: V, u1: V, u2: V, i: int, j: int) -> bool:
    """Whether a segment has a point in common with an edge of a triangle."""
    first = _segments_cross(a, b, u0, u1, i, j)
    return first or _segments_cross(a, b, u1, u2, i, j) or _segments_cross(a, b, u2, u0, i, j)


@kc.func
def _segments_cross(a: V, b: V, c: V, d: V, i: int, j: int) -> bool:
    """Whether two segments that are not parallel have a point in common.

    Source: Antonio, Faster line segment intersection, Graphics Gems III (1992).
    """
    ax = b[i] - a[i]
    ay = b[j] - a[j]
    bx = c[i] - d[i]
    by = c[j] - d[j]
    cx = a[i] - c[i]
    cy = a[j] - c[j]
    whole = ay * bx - ax * by
    one = by * cx - bx * cy
    two = ax * cy - ay * cx
    if whole < 0.0:
        return one <= 0.0 and one >= whole and two <= 0.0 and two >= whole
    return whole > 0.0 and one >= 0.0 and one <= whole and two >= 0.0 and two <= whole


@kc.func
def _contains(p: V, a: V, b: V, c: V, i: int, j: int) -> bool:
    """Whether ``p`` is inside of a triangle, and on none of its edges."""
    one = _side(p, a, b, i, j)
    return one * _side(p, b, c, i, j) > 0.0 and one * _side(p, c, a, i, j) > 0.0


@kc.func
def _side(p: V, a: V, b: V, i: int, j: int) -> Any:
    """Positive on one side of the line through ``a`` and ``b``, negative on the other."""
    return (b[j] - a[j]) * (p[i] - a[i]) - (b[i] - a[i]) * (p[j] - a[j])
