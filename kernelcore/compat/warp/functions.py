"""Functions of NVIDIA Warp that kernelcore has under other names or not at all."""

# Types of the kernel language are values to a type checker.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import kernelcore as kc


@kc.func
def quat_between_vectors(a: kc.vec3, b: kc.vec3) -> kc.quat:
    """The shortest rotation from the direction of ``a`` to that of ``b``, not its opposite."""
    u = kc.normalize(a)
    v = kc.normalize(b)
    c = kc.cross(u, v)
    return kc.normalize(kc.quat(c[0], c[1], c[2], 1.0 + kc.dot(u, v)))


def transform_expand(t: Any) -> Any:
    """The transform of the 7 numbers ``t``: position, then rotation."""
    return kc.transform(kc.vec3(*t[:3]), kc.quat(*t[3:7]))
