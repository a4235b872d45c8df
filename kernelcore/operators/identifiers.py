"""Names of operands as identifiers."""

from __future__ import annotations

from collections.abc import Sequence


def identifiers(declared: Sequence[str]) -> tuple[str, ...]:
    """Names of operands as identifiers, all different.

    's.mass' is 's_mass', and 'x.indices[0]' is 'x_indices_0'.
    """
    names = [name.replace(".", "_").replace("[", "_").replace("]", "") for name in declared]
    for index, name in enumerate(names):
        # A name that was declared stays; one that was made gives way.
        while name != declared[index] and (name in declared or name in names[:index]):
            name += "_"
        names[index] = name
    return tuple(names)
