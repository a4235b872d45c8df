"""The models of ``model_kernels`` in JAX and torch, and with derivatives by hand in numba."""

# pyright: basic

from math import cos, exp, log, sin, sqrt, tanh
from typing import Any

import jax
import numba  # pyright: ignore[reportMissingImports]
import numpy as np
import torch
from jax import numpy as jnp

HIDDEN = 14


def mixture_in_jax(alpha: Any, mean: Any, log_scale: Any, lower: Any, x: Any) -> Any:
    d = x[:, None] - mean
    r = jnp.exp(log_scale) * d + jnp.einsum("kab,nkb->nka", jnp.tril(lower, -1), d)
    return jax.nn.logsumexp(alpha + log_scale.sum(1) - 0.5 * (r * r).sum(2), axis=1).sum()


def mixture_in_torch(alpha: Any, mean: Any, log_scale: Any, lower: Any, x: Any) -> Any:
    d = x[:, None] - mean
    r = log_scale.exp() * d + torch.einsum("kab,nkb->nka", lower.tril(-1), d)
    return (alpha + log_scale.sum(1) - 0.5 * (r * r).sum(2)).logsumexp(1).sum()


@numba.njit(fastmath=True)
def mixture_in_numba(alpha, mean, log_scale, lower, x, gradients):
    """The objective; adds its gradient to ``gradients`` unless they are empty."""
    points, size, parts = x.shape[0], x.shape[1], alpha.shape[0]
    g_alpha, g_mean, g_scale, g_lower = gradients
    with_gradient = g_alpha.shape[0] > 0
    scale = np.exp(log_scale)
    d, r, term = np.empty((parts, size)), np.empty((parts, size)), np.empty(parts)
    back = np.empty(size)
    total = 0.0
    for i in range(points):
        for k in range(parts):
            for a in range(size):
                d[k, a] = x[i, a] - mean[k, a]
            square, det = 0.0, 0.0
            for a in range(size):
                value = scale[k, a] * d[k, a]
                for b in range(a):
                    value += lower[k, a, b] * d[k, b]
                r[k, a] = value
                square += value * value
                det += log_scale[k, a]
            term[k] = alpha[k] + det - 0.5 * square
        top = term.max()
        summed = 0.0
        for k in range(parts):
            summed += exp(term[k] - top)
        found = top + log(summed)
        total += found
        if not with_gradient:
            continue
        for k in range(parts):
            p = exp(term[k] - found)
            g_alpha[k] += p
            for a in range(size):
                back[a] = -p * r[k, a] * scale[k, a]
                g_scale[k, a] += p * (1.0 - r[k, a] * scale[k, a] * d[k, a])
            for a in range(size):
                value = -p * r[k, a]
                for b in range(a):
                    g_lower[k, a, b] += value * d[k, b]
                    back[b] += value * lower[k, a, b]
            for a in range(size):
                g_mean[k, a] -= back[a]
    return total


def projection_in_jax(camera: Any, point: Any, weight: Any, pixel: Any) -> Any:
    """Of one observation."""
    p = point - camera[3:6]
    angle = jnp.sqrt((camera[:3] * camera[:3]).sum())
    axis, c, s = camera[:3] / angle, jnp.cos(angle), jnp.sin(angle)
    q = p * c + jnp.cross(axis, p) * s + axis * ((axis * p).sum() * (1 - c))
    u = q[:2] / q[2]
    r = (u * u).sum()
    radial = 1 + camera[9] * r + camera[10] * r * r
    return weight * (camera[6] * u * radial + camera[7:9] - pixel)


def projection_in_torch(camera: Any, point: Any, weight: Any, pixel: Any) -> Any:
    """Of one observation."""
    p = point - camera[3:6]
    angle = (camera[:3] * camera[:3]).sum().sqrt()
    axis, c, s = camera[:3] / angle, angle.cos(), angle.sin()
    q = p * c + torch.linalg.cross(axis, p) * s + axis * ((axis * p).sum() * (1 - c))
    u = q[:2] / q[2]
    r = (u * u).sum()
    radial = 1 + camera[9] * r + camera[10] * r * r
    return weight * (camera[6] * u * radial + camera[7:9] - pixel)


@numba.njit(fastmath=True)
def projection_in_numba(camera, point, weight, pixel, y, rows):
    """Errors, and unless ``rows`` is empty their Jacobian: 11 of the camera, 3, 1."""
    for i in range(camera.shape[0]):
        p0, p1, p2 = (
            point[i, 0] - camera[i, 3],
            point[i, 1] - camera[i, 4],
            point[i, 2] - camera[i, 5],
        )
        w0, w1, w2 = camera[i, 0], camera[i, 1], camera[i, 2]
        angle = sqrt(w0 * w0 + w1 * w1 + w2 * w2)
        a0, a1, a2 = w0 / angle, w1 / angle, w2 / angle
        c, s = cos(angle), sin(angle)
        x0, x1, x2 = a1 * p2 - a2 * p1, a2 * p0 - a0 * p2, a0 * p1 - a1 * p0
        ap = a0 * p0 + a1 * p1 + a2 * p2
        along = ap * (1.0 - c)
        q0, q1, q2 = (
            p0 * c + x0 * s + a0 * along,
            p1 * c + x1 * s + a1 * along,
            p2 * c + x2 * s + a2 * along,
        )
        u, v = q0 / q2, q1 / q2
        r = u * u + v * v
        k1, k2, f = camera[i, 9], camera[i, 10], camera[i, 6]
        radial = 1.0 + k1 * r + k2 * r * r
        e0 = f * u * radial + camera[i, 7] - pixel[i, 0]
        e1 = f * v * radial + camera[i, 8] - pixel[i, 1]
        y[i, 0], y[i, 1] = weight[i] * e0, weight[i] * e1
        if rows.shape[0] == 0:
            continue
        for m in range(2):
            w = weight[i]
            uv = u if m == 0 else v
            slope = 2.0 * f * uv * (k1 + 2.0 * k2 * r) * w
            g_u = slope * u + (f * radial * w if m == 0 else 0.0)
            g_v = slope * v + (f * radial * w if m == 1 else 0.0)
            g0, g1 = g_u / q2, g_v / q2
            g2 = -(g0 * u + g1 * v)
            g_along = g0 * a0 + g1 * a1 + g2 * a2
            g_ap = g_along * (1.0 - c)
            # Cotangents of the cross product and of the axis.
            h0, h1, h2 = g0 * s, g1 * s, g2 * s
            b0 = g0 * along + g_ap * p0 + (p1 * h2 - p2 * h1)
            b1 = g1 * along + g_ap * p1 + (p2 * h0 - p0 * h2)
            b2 = g2 * along + g_ap * p2 + (p0 * h1 - p1 * h0)
            t0 = g0 * c + g_ap * a0 + (h1 * a2 - h2 * a1)
            t1 = g1 * c + g_ap * a1 + (h2 * a0 - h0 * a2)
            t2 = g2 * c + g_ap * a2 + (h0 * a1 - h1 * a0)
            g_c = g0 * p0 + g1 * p1 + g2 * p2 - g_along * ap
            g_s = g0 * x0 + g1 * x1 + g2 * x2
            g_angle = g_s * c - g_c * s - (b0 * a0 + b1 * a1 + b2 * a2) / angle
            out = rows[i, m]
            out[0], out[1], out[2] = (
                b0 / angle + g_angle * a0,
                b1 / angle + g_angle * a1,
                b2 / angle + g_angle * a2,
            )
            out[3], out[4], out[5] = -t0, -t1, -t2
            out[6] = w * uv * radial
            out[7], out[8] = (w, 0.0) if m == 0 else (0.0, w)
            out[9], out[10] = w * f * uv * r, w * f * uv * r * r
            out[11], out[12], out[13] = t0, t1, t2
            out[14] = e0 if m == 0 else e1


def _cell_in_jax(w: Any, b: Any, x: Any, hidden: Any, cell: Any) -> Any:
    forget, enter = jax.nn.sigmoid(x * w[0] + b[0]), jax.nn.sigmoid(hidden * w[1] + b[1])
    leave, change = jax.nn.sigmoid(x * w[2] + b[2]), jnp.tanh(hidden * w[3] + b[3])
    cell = cell * forget + enter * change
    return leave * jnp.tanh(cell), cell


def lstm_in_jax(weight: Any, bias: Any, scale: Any, first: Any, sequence: Any) -> Any:
    def step(state: Any, pair: Any) -> Any:
        given, wanted = pair
        h0, c0 = _cell_in_jax(weight[0], bias[0], given * scale[0], state[0], state[1])
        h1, c1 = _cell_in_jax(weight[1], bias[1], h0, state[2], state[3])
        found = h1 * scale[1] + scale[2]
        return (h0, c0, h1, c1), (wanted * (found - jnp.log(jnp.exp(found).sum() + 2))).sum()

    state = (first[0, 0], first[0, 1], first[1, 0], first[1, 1])
    _, terms = jax.lax.scan(step, state, (sequence[:-1], sequence[1:]))
    return terms.sum() / (HIDDEN * (sequence.shape[0] - 1))


def _cell_in_torch(w: Any, b: Any, x: Any, hidden: Any, cell: Any) -> Any:
    forget, enter = torch.sigmoid(x * w[0] + b[0]), torch.sigmoid(hidden * w[1] + b[1])
    leave, change = torch.sigmoid(x * w[2] + b[2]), torch.tanh(hidden * w[3] + b[3])
    cell = cell * forget + enter * change
    return leave * torch.tanh(cell), cell


def step_in_torch(weight: Any, bias: Any, scale: Any, state: Any, given: Any, wanted: Any) -> Any:
    """The next state and the log likelihood of a step; a graph of all steps takes hours."""
    h0, c0 = _cell_in_torch(weight[0], bias[0], given * scale[0], state[0], state[1])
    h1, c1 = _cell_in_torch(weight[1], bias[1], h0, state[2], state[3])
    found = h1 * scale[1] + scale[2]
    return (h0, c0, h1, c1), (wanted * (found - torch.log(found.exp().sum() + 2))).sum()


@numba.njit(fastmath=True)
def _sigmoid(x):
    return 1.0 / (1.0 + exp(-x))


@numba.njit(fastmath=True)
def lstm_in_numba(weight, bias, scale, first, sequence, gradients):
    """The objective; adds its gradient to ``gradients`` unless they are empty."""
    steps, size = sequence.shape[0] - 1, sequence.shape[1]
    g_weight, g_bias, g_scale = gradients
    with_gradient = g_scale.shape[0] > 0
    # Per step and layer: input, hidden before, cell before, four gates, tanh of the cell.
    kept = np.empty((steps if with_gradient else 1, 2, 8, size))
    part = np.empty((steps if with_gradient else 1, size))
    state = first.copy()
    total = 0.0
    for t in range(steps):
        at = t if with_gradient else 0
        summed, likely, wanted = 2.0, 0.0, 0.0
        for j in range(size):
            x = sequence[t, j] * scale[0, j]
            for n in range(2):
                h, c = state[n, 0, j], state[n, 1, j]
                f = _sigmoid(x * weight[n, 0, j] + bias[n, 0, j])
                e = _sigmoid(h * weight[n, 1, j] + bias[n, 1, j])
                o = _sigmoid(x * weight[n, 2, j] + bias[n, 2, j])
                g = tanh(h * weight[n, 3, j] + bias[n, 3, j])
                state[n, 1, j] = c * f + e * g
                k = tanh(state[n, 1, j])
                if with_gradient:
                    kept[at, n, 0, j], kept[at, n, 1, j], kept[at, n, 2, j] = x, h, c
                    kept[at, n, 3, j], kept[at, n, 4, j], kept[at, n, 5, j] = f, e, o
                    kept[at, n, 6, j], kept[at, n, 7, j] = g, k
                x = o * k
                state[n, 0, j] = x
            found = x * scale[1, j] + scale[2, j]
            part[at, j] = exp(found)
            summed += part[at, j]
            likely += sequence[t + 1, j] * found
            wanted += sequence[t + 1, j]
        total += likely - wanted * log(summed)
        for j in range(size):
            part[at, j] *= wanted / summed
    unit = 1.0 / (size * steps)
    if not with_gradient:
        return total * unit
    back = np.zeros((2, 2, size))
    for t in range(steps - 1, -1, -1):
        for j in range(size):
            g_found = unit * (sequence[t + 1, j] - part[t, j])
            x = kept[t, 1, 5, j] * kept[t, 1, 7, j]
            g_scale[1, j] += g_found * x
            g_scale[2, j] += g_found
            g_x = g_found * scale[1, j]
            for n in range(1, -1, -1):
                x, h, c = kept[t, n, 0, j], kept[t, n, 1, j], kept[t, n, 2, j]
                f, e, o = kept[t, n, 3, j], kept[t, n, 4, j], kept[t, n, 5, j]
                g, k = kept[t, n, 6, j], kept[t, n, 7, j]
                g_h = g_x + back[n, 0, j]
                g_c = back[n, 1, j] + g_h * o * (1.0 - k * k)
                d_o = g_h * k * o * (1.0 - o)
                d_f = g_c * c * f * (1.0 - f)
                d_e = g_c * g * e * (1.0 - e)
                d_g = g_c * e * (1.0 - g * g)
                back[n, 1, j] = g_c * f
                back[n, 0, j] = d_e * weight[n, 1, j] + d_g * weight[n, 3, j]
                g_x = d_f * weight[n, 0, j] + d_o * weight[n, 2, j]
                g_weight[n, 0, j] += d_f * x
                g_weight[n, 1, j] += d_e * h
                g_weight[n, 2, j] += d_o * x
                g_weight[n, 3, j] += d_g * h
                g_bias[n, 0, j] += d_f
                g_bias[n, 1, j] += d_e
                g_bias[n, 2, j] += d_o
                g_bias[n, 3, j] += d_g
            g_scale[0, j] += g_x * sequence[t, j]
    return total * unit
