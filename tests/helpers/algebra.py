"""Every function of the vector and matrix library, with its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelcore.builtins import LIBRARY
from kernelcore.language.types import Dense, Scalar

Arrays = list[np.ndarray]
Rng = np.random.Generator
L = LIBRARY

# Codes of argument and result types.
_SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    **{f"v{n}": ("vector", (n,)) for n in (2, 3, 4, 5, 6)},
    **{
        f"m{r}{c}": ("matrix", (r, c))
        for r in range(1, 7)
        for c in range(1, 7)
    },
    "q": ("quaternion", (4,)),
    "t": ("transform", (7,)),
}  # fmt: skip


def type_named(code: str, dtype: Scalar) -> Dense | Scalar:
    """The type of a code: 's' a scalar, 'v3' a vector, 'm23' a matrix, 'q', 't'."""
    return dtype if code == "s" else Dense(_SHAPES[code][0], dtype, _SHAPES[code][1])


@dataclass(frozen=True)
class Case:
    """A function of the kernel language.

    Attributes:
        name: Its name in the results of tests.
        function: The function.
        args: Codes of its argument types.
        results: Codes of its result types.
        reference: Its meaning on float64 arrays.
        draw: Makes arguments that suit it.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[str, ...]
    results: tuple[str, ...]
    reference: Callable[..., Any]
    draw: Callable[[Rng, Sequence[str]], Arrays]


CASES: list[Case] = []


def any_values(rng: Rng, codes: Sequence[str]) -> Arrays:
    """Numbers of magnitude 0.3 to 1.5; quaternions and rotations have length 1."""
    found: Arrays = []
    for code in codes:
        shape = () if code == "s" else _SHAPES[code][1]
        value = np.asarray(rng.uniform(0.3, 1.5, shape) * rng.choice([-1.0, 1.0], shape))
        if code in ("q", "t"):
            value[-4:] /= np.linalg.norm(value[-4:])
        found.append(value)
    return found


def regular(rng: Rng, codes: Sequence[str]) -> Arrays:
    """Matrices far from singular."""
    return [
        np.diag(np.arange(1.0, 1.0 + int(c[1])))[rng.permutation(int(c[1]))]
        + rng.uniform(-0.3, 0.3, (int(c[1]), int(c[1])))
        for c in codes
    ]


def rotations(rng: Rng, codes: Sequence[str]) -> Arrays:
    """Rotation matrices, in the corner of an affine one."""
    found: Arrays = []
    for code in codes:
        size = int(code[1])
        matrix = np.eye(size)
        matrix[:3, 3:] = rng.uniform(-1.0, 1.0, (3, size - 3))
        matrix[:3, :3] = turn(any_values(rng, ["q"])[0])
        found.append(matrix)
    return found


def unit_axis(rng: Rng, codes: Sequence[str]) -> Arrays:
    """The first argument has length 1."""
    first, *rest = any_values(rng, codes)
    return [first / np.linalg.norm(first), *rest]


def fractions(rng: Rng, codes: Sequence[str]) -> Arrays:
    """The last argument is in [0, 1]."""
    *first, _ = any_values(rng, codes)
    return [*first, np.asarray(rng.uniform(0.05, 0.95))]


def case(
    name: str,
    args: str,
    results: str,
    reference: Callable[..., Any],
    draw: Callable[[Rng, Sequence[str]], Arrays] = any_values,
    function: Callable[..., Any] | None = None,
) -> None:
    """Enter a function of the library, or one that uses it."""
    known = L[name] if function is None else function
    label = f"{name}-{args.replace(' ', '-')}"
    CASES.append(Case(label, known, tuple(args.split()), tuple(results.split()), reference, draw))


def hat(u: np.ndarray) -> np.ndarray:
    """The matrix of the cross product."""
    return np.array([[0, -u[2], u[1]], [u[2], 0, -u[0]], [-u[1], u[0], 0]])


def turn(q: np.ndarray) -> np.ndarray:
    """The rotation matrix of a quaternion, by Rodrigues' formula."""
    u, w = q[:3] / np.linalg.norm(q), q[3] / np.linalg.norm(q)
    return np.eye(3) + 2.0 * w * hat(u) + 2.0 * hat(u) @ hat(u)


def hamilton(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The product of quaternions, as that of complex matrices."""
    a, b = (
        np.array([[w + 1j * x, y + 1j * z], [-y + 1j * z, w - 1j * x]]) for x, y, z, w in (p, q)
    )
    m = a @ b
    return np.array([m[0, 0].imag, m[0, 1].real, m[0, 1].imag, m[0, 0].real])


def conjugate(q: np.ndarray) -> np.ndarray:
    return q * [-1.0, -1.0, -1.0, 1.0]


def about(axis: int, angle: float) -> np.ndarray:
    return np.append(np.eye(3)[axis] * np.sin(angle / 2), np.cos(angle / 2))


def affine(t: np.ndarray) -> np.ndarray:
    return np.block([[turn(t[3:]), t[:3, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def slerp(a: np.ndarray, b: np.ndarray, t: float) -> np.ndarray:
    b = b if a @ b >= 0 else -b
    angle = np.arccos(np.clip(a @ b, -1.0, 1.0))
    return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)


def twist(axis: np.ndarray, q: np.ndarray) -> np.ndarray:
    part = np.append(axis * (axis @ q[:3]), q[3])
    return part / np.linalg.norm(part)


def lift(t: np.ndarray) -> np.ndarray:
    """The 6x6 matrix that maps twists."""
    r = turn(t[3:])
    return np.block([[r, np.zeros((3, 3))], [hat(t[:3]) @ r, r]])


def crossing(v: np.ndarray) -> np.ndarray:
    """The 6x6 matrix of ``spatial_cross(v, .)``."""
    return np.block([[hat(v[:3]), np.zeros((3, 3))], [hat(v[3:]), hat(v[:3])]])


def huber(v: np.ndarray, d: float) -> float:
    size = float(np.linalg.norm(v))
    return 0.5 * size**2 if size <= abs(d) else d * (size - 0.5 * d)
