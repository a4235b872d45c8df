"""Random kernels whose loops along the row of a thread compute equal values."""

from __future__ import annotations

from random import Random

FLOATS = ("float32", "float64")
# What all threads of a program have, by how many axes the launch has.
THREADS = {1: ("i = kc.tid()", "i"), 2: ("b, i = kc.tid()", "b, i")}
EXTENTS = {1: (37,), 2: (3, 21)}
RANGES = ("n", "n", "0, n", "n - 1, -1, -1")
# Of an element v, another one w, and a number t of the row.
COSTLY = ("kc.exp(v - t)", "kc.sin(v) * w", "kc.exp(v * w)", "kc.log(v * v + w * w)", "kc.tanh(v)")
CHEAP = ("v - t", "v * w", "w")
STEPS = ("s{at} += {v}", "s{at} -= {v}", "s{at} = kc.max(s{at}, {v})")
# Of what a thread has in the end.
ENDS = ("{s}", "{s}", "kc.tanh({s})", "{one} / ({one} + kc.exp(-{s}))", "kc.sin({s}) * {s}")
STORES = ("{v}", "{v} / t", "{y} + {v} * v", "{v} - {y}")


class KeepingProgram:
    """Writes one kernel; ``text`` is its source.

    Attributes:
        rank: How many axes the launch has.
        inputs: The type of each array that it reads.
        outputs: The type of each array that it writes, and at times reads.
        sums: The type of each value per thread that it writes.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.rank, self.real = self.rng.choice((1, 1, 2)), self.rng.choice(FLOATS)
        self.inputs = {f"x{at}": self.rng.choice(FLOATS) for at in range(2)}
        self.outputs = {f"y{at}": self.rng.choice(FLOATS) for at in range(2)}
        self.sums = {f"s{at}": self.rng.choice(FLOATS) for at in range(2)}
        self.values = [self.rng.choice(COSTLY) for _ in range(2)] + [self.rng.choice(CHEAP)]
        self.start, self.place = THREADS[self.rank]
        lines = [f"    {self.start}", "    n = x0.shape[-1]"]
        lines.append(f"    t = kc.{self.real}(x1[{self.place}, 0])")
        lines += [f"    {name} = kc.{dtype}(0.5)" for name, dtype in self.sums.items()]
        for number in range(self.rng.randint(2, 4)):
            lines += self._loop(f"k{number}")
        for name, dtype in self.sums.items():
            end = self.rng.choice(ENDS).format(s=name, one=f"kc.{dtype}(1.0)")
            lines.append(f"    of_{name}[{self.place}] = {end}")
        arrays = {**self.inputs, **self.outputs}
        params = [f"{n}: kc.array(kc.{t}, {self.rank + 1})" for n, t in arrays.items()]
        params += [f"of_{n}: kc.array(kc.{t}, {self.rank})" for n, t in self.sums.items()]
        self.text = "\n".join(["@kc.kernel", f"def kernel({', '.join(params)}):", *lines, ""])

    def _loop(self, index: str) -> list[str]:
        pick = self.rng.choice
        named = zip("vw", self.inputs, strict=True)
        body = [f"{v} = kc.{self.real}({x}[{self.place}, {index}])" for v, x in named]
        for _ in range(self.rng.randint(1, 3)):
            value = pick(self.values)
            if self.rng.random() < 0.6:
                at = self.rng.randrange(len(self.sums))
                added = f"kc.{self.sums[f's{at}']}({value})"
                if self.rng.random() < 0.15:
                    # The adjoint asks how often it ran.
                    turn = f"turn{len(body)}"
                    body += [f"{turn} = kc.int32(0)", f"while {turn} < {index} % 3:"]
                    half = f"kc.{self.sums[f's{at}']}(0.5)"
                    body += [f"    s{at} = s{at} * {half} + {added}", f"    {turn} += 1"]
                    continue
                text = pick(STEPS[:2] if at else STEPS[2:])
                body.append(text.format(at=at, v=added))
            else:
                name, dtype = pick(list(self.outputs.items()))
                y = f"{name}[{self.place}, {index}]"
                made = pick(STORES).format(y=f"kc.{self.real}({y})", v=f"({value})")
                body.append(f"{y} = kc.{dtype}({made})")
        lines = [f"    for {index} in range({pick(RANGES)}):", *("        " + b for b in body)]
        if self.rng.random() < 0.2:
            lines.append('    assert not (s0 > 1.0e30), "finite"')
        # What loops compute alike depends on what is known between them.
        return [*lines, f"    t = kc.{self.real}(s1) * 0.01"] if self.rng.random() < 0.2 else lines
