"""What ``explain`` says, against counts by hand, the generated code, and what launches do."""

from __future__ import annotations

import inspect
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import __main__ as command


@kc.kernel
def saxpy(a: float, x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] + y[i]


@kc.kernel
def pick(x: kc.array(dtype=float), at: kc.array(dtype=int), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[at[i]]


@kc.kernel
def running_sums(x: kc.array2d[float], y: kc.array2d[float]):
    i = kc.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
        y[i, j] = total


@kc.kernel
def row_sums(x: kc.array2d(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    s = 0.0
    for j in range(x.shape[1]):
        s += kc.sqrt(x[i, j])
    y[i] = s


@kc.kernel
def starts_of_rows(x: kc.array2d(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.exp(kc.sin(x[i, 0]))


@kc.func
def squared(a: float):
    return a * a


@kc.kernel
def chained(x: kc.array(dtype=float), n: int, at: kc.array(dtype=int), y: kc.array(dtype=float)):
    i = kc.tid()
    v = x[at[i]]
    for _ in range(n):
        v = squared(v)
    while v > 2.0:
        v = 0.5 * v
    y[i] = v


@kc.kernel
def count(x: kc.array(dtype=float), n: kc.array(dtype=int)):
    i = kc.tid()
    if x[i] > 0.0:
        kc.atomic_max(n, 0, i)


@kc.kernel
def twice(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@kc.kernel
def spaced(x: kc.array(dtype=float), p: kc.array(dtype=kc.vec3), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[3 * i] * kc.exp(kc.length(p[i])) + x[0]


def line_of(kernel: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.pyfunc)
    return first + next(k for k, line in enumerate(lines) if text in line)


def found(kernel: Any, *args: Any, **options: Any) -> Any:
    return kc.explain(kernel, *args, **options)


def test_adjacent_elements_of_gangs() -> None:
    e = found(saxpy)
    assert e.strategy.gang > 1
    assert [(a.kind, a.array, a.how) for a in e.accesses] == [
        ("load", "x", "adjacent elements"),
        ("load", "y", "adjacent elements"),
        ("store", "y", "adjacent elements"),
    ]
    assert not any(a.is_scattered for a in e.accesses)
    assert {a.loc.line for a in e.accesses} == {line_of(saxpy, "y[i] =")}
    assert e.loops == ()
    assert e.measured is None
    assert "gangs of" in str(e)
    assert (e.work.counts.flops, e.work.counts.loaded_bytes, e.work.counts.stored_bytes) == (
        2,
        8,
        4,
    )


@kc.kernel
def sloped(u: kc.array1d[float], y: kc.array1d[float]):
    i = kc.tid()
    y[i] = u[kc.max(i - 1, 0)] + u[i]


def test_the_middle_of_rows_has_code_of_its_own() -> None:
    text = str(kc.explain(sloped))
    assert "threads in SIMD registers: in the middle of a row it accesses adjacent elements" in text
    assert "gangs in the middle of a row have code of their own" in text
    assert text.count("without a fixed step; in the middle of a row, adjacent elements") == 1


def test_single_threads_name_the_line_that_is_gathered() -> None:
    e = found(pick)
    assert e.strategy.gang == 1
    assert f"(line {line_of(pick, 'y[i] =')})" in e.why
    assert "has 0 instructions of arithmetic for 1 elements" in e.why
    assert {a.how for a in e.accesses} == {"one element at a time"}


def test_operations_without_a_vector_form_are_named() -> None:
    e = found(count)
    line = line_of(count, "atomic_max")
    assert e.why == f"'kc.atomic_max(n, 0, i)' (line {line}) has no vector form"
    assert e.adjoint.refusal == "it writes no floats"


def test_elements_at_a_step_components_and_shared_elements() -> None:
    hows = [(a.array, a.how, a.is_scattered) for a in found(spaced).accesses]
    assert ("x", "element by element, 3 apart on the last axis", True) in hows
    assert ("p", "adjacent elements, whose 3 components are sorted into registers", False) in hows
    assert ("x", "one element for all lanes", False) in hows


def test_rows_of_threads_are_told_from_rows_of_memory() -> None:
    (x,) = [a for a in found(running_sums).accesses if a.array == "x"]
    assert x.how == "16 elements of a row per lane, transposed in registers"
    assert not x.is_scattered
    (loop,) = found(running_sums).loops
    assert loop.how.endswith("along rows in blocks of 16 iterations")
    (x,) = [a for a in found(row_sums).accesses if a.array == "x"]
    assert x.how == "adjacent elements"
    (loop,) = found(row_sums).loops
    assert loop.how.startswith("32 or 8 iterations at once, lane after lane of a gang")
    assert loop.how.endswith("fewer than 32 iterations in blocks of 16, in their order")
    (x,) = [a for a in found(starts_of_rows).accesses if a.array == "x"]
    assert x.how == "element by element: lanes differ on axis 0, and axis 1 is adjacent"
    assert x.is_scattered


def test_counts_with_and_without_extents() -> None:
    without = found(row_sums)
    assert not without.work.counts.is_known
    assert [loop.trips for loop in without.loops] == [None]
    x, y = np.ones((5, 7), np.float32), np.zeros(5, np.float32)
    given = found(row_sums, x, y)
    assert [loop.trips for loop in given.loops] == [7]
    assert given.work.counts.is_known
    # A square root and an addition in each iteration.
    assert given.work.counts.flops == 7 * 2
    assert given.work.counts.loaded_bytes == 7 * 4
    assert given.work.counts.stored_bytes == 4
    assert given.measured.flops == 5 * 7 * 2
    assert given.measured.array_bytes == x.nbytes + y.nbytes


def test_loops_say_what_keeps_their_iterations_apart() -> None:
    n = 9
    x, at, y = np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros(4, np.float32)
    first, second = found(chained, x, n, at, y).loops
    assert (first.trips, second.trips) == (n, None)
    assert first.loc.line == line_of(chained, "for _")
    assert second.loc.line == line_of(chained, "while v")
    if found(chained).strategy.gang == 1:
        assert first.why.startswith("an iteration needs what the one before it computed")


def test_the_adjoint_says_what_it_records() -> None:
    records = found(chained).adjoint.records
    line = line_of(chained, "for _")
    assert [(r.dtype, r.loops) for r in records] == [(kc.float32, (f"for %_ (line {line})",))]
    assert found(saxpy).adjoint.records == ()
    assert found(saxpy).adjoint.cost > 0
    assert found(chained).adjoint.recorded_bytes is None


@kc.kernel
def chaotic(x: kc.array(dtype=float), n: int, y: kc.array(dtype=float)):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = 3.7 * v * (1.0 - v)
    y[i] = v


@kc.kernel
def heat(u: kc.array2d(dtype=float), w: kc.array2d(dtype=float)):
    i, j = kc.tid()
    if i > 0 and i < u.shape[0] - 1:
        w[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] - 2.0 * u[i, j])


@kc.kernel
def histogram(x: kc.array(dtype=float), at: kc.array(dtype=int), sums: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(sums, at[i], x[i] * x[i])


@kc.kernel
def product(a: kc.array2d(dtype=float), b: kc.array2d(dtype=float), c: kc.array2d(dtype=float)):
    i, j = kc.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("kernel", "args", "recorded", "loaded", "flops", "says"),
    [
        # A state an iteration; the factor of v in two products and a difference.
        (chaotic, (ones(8), 20, ones(8)), 80, 4, 20 * (3 + 2), "%_ (line"),
        # Linear: its adjoint needs no value of it.
        (heat, (ones(8, 8), ones(8, 8)), 0, 0, 0, "remainder of a row"),
        (histogram, (ones(8), np.zeros(8, np.int32), ones(4)), 0, 8, 0, "one element at a time"),
        (product, (ones(5, 7), ones(7, 6), ones(5, 6)), 0, 7 * 8, 0, "loop (7)"),
        # An array that is updated is updated again.
        (saxpy, (2.0, ones(8), ones(8)), 0, 8, 2, "adjacent elements"),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_the_adjoint_counts_what_it_records_and_loads_again(
    kernel: Any, args: Any, recorded: int, loaded: int, flops: int, says: str
) -> None:
    e = found(kernel, *args)
    assert e.adjoint.recorded_bytes == recorded
    assert (e.adjoint.recomputed.loaded_bytes, e.adjoint.recomputed.flops) == (loaded, flops)
    assert 0.5 < e.adjoint.cost < 5
    text = str(e)
    assert says in text
    assert f"loads {loaded} bytes of the kernel's arrays again" in text
    assert f"records {recorded} bytes:" in text or "records nothing" in text
    for part in ("a thread: ", "flops, loads ", "load ", "it takes ", "GB/s", "GFLOP/s", "cost "):
        assert part in text


def test_costs_add_up_and_name_lines_of_called_functions() -> None:
    e = found(chained)
    assert sum(e.share_of(loc) for loc in places(e)) == pytest.approx(1.0)
    file = inspect.getsourcefile(squared.overloads[0].pyfunc)
    line = line_of(squared.overloads[0], "return a * a")
    assert (file, line) in e.work.cost
    assert f"{file}:{line}: " in str(e)


def places(e: Any) -> list[Any]:
    from kernelcore.base.errors import SrcLoc

    return [SrcLoc(file, line, 0, 0) for file, line in e.work.cost]


def test_a_measured_launch_leaves_the_arguments_alone() -> None:
    x, y = np.ones(1000, np.float32), np.full(1000, 3, np.float32)
    e = found(saxpy, 2.0, x, y)
    assert np.all(y == 3)
    assert e.measured.dim == (1000,)
    assert 0 < e.measured.least_seconds < 1e-3
    assert 0 < e.measured.seconds < 1
    assert "launch over 1000:" in str(e)
    assert found(saxpy, 2.0, kc.array(x), y, dim=10).measured.dim == (10,)


def test_a_launch_over_vectors_is_measured() -> None:
    def lengths(v: kc.array1d[kc.vec3], y: kc.array1d[float]):
        y[kc.tid()] = kc.length(v[kc.tid()])

    e = found(kc.kernel(lengths), kc.zeros(50, dtype=kc.vec3), np.zeros(50, np.float32))
    assert e.measured.array_bytes == 50 * (12 + 4)


def test_generic_kernels_take_the_types_of_their_arguments() -> None:
    x = np.ones(8)
    e = found(twice, x, np.zeros(8))
    assert e.work.counts.loaded_bytes == 8
    with pytest.raises(kc.KernelArgumentError, match="follows from its types"):
        found(twice)


@pytest.mark.parametrize(
    ("args", "options", "text"),
    [
        ((1.0,), {}, "expected 3 arguments for saxpy"),
        ((1.0, np.ones(3), np.ones(3)), {}, "argument 'x'"),
        ((3, [1.0, np.ones(3)], [np.ones(3)]), {"dim": 3}, "expected an array for 'x' of saxpy"),
    ],
)
def test_wrong_arguments(args: Any, options: Any, text: str) -> None:
    with pytest.raises(kc.KernelArgumentError, match=text):
        found(saxpy, *args, **options)


def test_other_objects_are_refused() -> None:
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel"):
        found(len)


class Columns(HTMLParser):
    """The lines of a page that belong to source lines, and whether its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.places: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        named = dict(attrs)
        self.loaded += [v or "" for k, v in attrs if k in ("src", "href")]
        if place := named.get("data-at"):
            self.places.append(place)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    found(row_sums).save(path)
    text = path.read_text()
    columns = Columns()
    columns.feed(text)
    assert columns.open == []
    assert columns.loaded == []
    assert "http" not in text
    file = inspect.getsourcefile(row_sums.pyfunc)
    # The line is in the source, the IR and the assembly.
    assert columns.places.count(f"{file}:{line_of(row_sums, 's += ')}") >= 3
    assert found(row_sums)._repr_html_().startswith("<iframe srcdoc=")


def test_the_page_escapes_what_the_source_holds(tmp_path: Path) -> None:
    file = tmp_path / 'kernels "é" <b>.py'
    file.write_text(
        "import kernelcore as kc\n\n@kc.kernel\ndef k(y: kc.array(dtype=float)):\n"
        "    i = kc.tid()\n    y[i] = 1.0  # <script>alert(1)</script>\n"
    )
    space: dict[str, Any] = {"__name__": "escaped"}
    exec(compile(file.read_text(), str(file), "exec"), space)
    page = found(space["k"]).html()
    assert "<script>alert" not in page
    columns = Columns()
    columns.feed(page)
    assert f"{file}:6" in columns.places


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", f"{__file__}:saxpy"]) == 0
    assert "kernel saxpy" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert command.main(["explain", f"{__file__}:saxpy", "--html", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert command.main(["explain", f"{__file__}:nothing"]) == 1
    assert "no kernel 'nothing'" in capsys.readouterr().err
