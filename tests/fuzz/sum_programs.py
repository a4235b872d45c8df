"""Random kernels over grids that add, in loops, to elements that many threads share."""

from __future__ import annotations

from random import Random

AXES = ("h", "i", "j")
# The most threads along each axis.
GRID = (3, 9, 23)
LOOP = 21
# Of loops that go through the sums; the index is at least 1 and below LOOP.
RANGES = (
    "1, n",
    "1, n",
    "n - 1, 0, -1",
    "n - 1, m % 7, -1",
    "1 + m % 5, n",
    "2, 2 + m % 19",
    "1, n - m",
)
TYPES = ("float32", "float32", "float64", "int32")


class SumProgram:
    """Writes one kernel with one or two loops that add to elements of arrays.

    ``text`` is its source, ``arrays`` the type and the axes of its arrays by name. Numbers stay
    small integers, so that sums are exact in any order.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.rank = self.rng.choice((2, 2, 3))
        self.axes = AXES[-self.rank :]
        self.grid = tuple(self.rng.randint(1, n) for n in GRID[-self.rank :])
        self.extents = dict(zip(self.axes, self.grid, strict=True)) | {"k": LOOP}
        self.real = self.rng.choice(("float32", "float64"))
        self.arrays: dict[str, tuple[str, str]] = {}
        self.sums: list[str] = []
        self.lines: list[str] = []
        self.write()

    @property
    def text(self) -> str:
        params = [
            f"{name}: kc.array(dtype=kc.{type_}, ndim={len(axes)})"
            for name, (type_, axes) in self.arrays.items()
        ]
        head = f"def kernel({', '.join(params)}, n: int, m: int):"
        return "\n".join(["@kc.kernel", head, *self.lines, ""])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array ``name``."""
        return tuple(self.extents[axis] for axis in self.arrays[name][1])

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def some_axes(self, least: int) -> str:
        """Some of the launch axes and the loop's, in any order."""
        names = [*self.axes, "k"]
        return "".join(self.rng.sample(names, self.rng.randint(least, min(3, len(names)))))

    def element(self, axes: str) -> str:
        """An element of an array that the kernel only reads."""
        known = [name for name, (_, own) in self.arrays.items() if own == axes and name[0] == "x"]
        if not known or self.rng.random() < 0.5:
            known = [f"x{len(self.arrays)}"]
            self.arrays[known[0]] = (self.real, axes)
        return f"{self.rng.choice(known)}[{', '.join(axes)}]"

    def write(self) -> None:
        """The body of the kernel."""
        pick = self.rng.choice
        self.line(1, f"{', '.join(self.axes)} = kc.tid()")
        self.line(1, f"v = {self.element(''.join(self.axes))}")
        if self.rng.random() < 0.5:
            self.line(1, "for k in range(1, 4):")
            self.line(2, f"v += {self.element(pick(('k', 'ik', 'kj')))}")
        if self.rng.random() < 0.5:
            self.arrays["y"] = (self.real, "".join(self.axes))
            self.line(1, f"y[{', '.join(self.axes)}] = v + {self.element('i')}")
        for number in range(self.rng.randint(1, 2)):
            self.loop(number)

    def bounds(self) -> str:
        """Those of a loop: the extent of an array, or others."""
        known = [(name, axes.index("k")) for name, (_, axes) in self.arrays.items() if "k" in axes]
        if known and self.rng.random() < 0.4:
            name, axis = self.rng.choice(known)
            return f"{name}.shape[{axis}]"
        return self.rng.choice(RANGES)

    def loop(self, number: int) -> None:
        """A loop with additions."""
        pick = self.rng.choice
        self.line(1, f"for k in range({self.bounds()}):")
        terms = ["v", "kc.{t}(k)", "kc.{t}(i)", self.element(self.some_axes(1))]
        self.line(2, f"w{number} = {self.element(self.some_axes(1))} * v")
        terms += [f"w{number}", f"w{number} - {self.element(self.some_axes(1))}"]
        for _ in range(self.rng.randint(1, 3)):
            name = f"s{len(self.arrays)}"
            axes = "".join(a for a in self.some_axes(1) if a != "k")
            at = self.rng.randint(0, len(axes))
            axes = axes[:at][:2] + "k" + axes[at:][:2]
            self.arrays[name] = (pick(TYPES), axes[:3] if "k" in axes[:3] else axes[-3:])
            self.sums.append(name)
            type_, axes = self.arrays[name]
            value = f"kc.{type_}({pick(terms).format(t=self.real)})"
            self.line(2, f"kc.atomic_add({name}, {', '.join(axes)}, {value})")
