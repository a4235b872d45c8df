"""Every example runs, the demo with few iterations, and so does the code in the documents."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.documents import blocks, script, wrong_outputs
from tests.helpers.environment import ROOT

EXAMPLES = ROOT / "examples"
# The longest that an example may be.
MAX_LINES = 100
PROGRAMS = sorted(p.name for p in EXAMPLES.glob("*.py"))
# What examples draw.
PICTURES = {"01_tv_denoise.py": "output/tv_denoise.png"} | {
    name: f"{name[3:-3]}.png" for name in PROGRAMS if name[0] in "12"
}
# Blocks of decisions and of the internals are not programs of users.
PAGES = [
    path
    for path in (ROOT / "docs").rglob("*.md")
    if path.parent.name not in ("decisions", "internals") and blocks(path)
]


def script_name(path: Path) -> str:
    """A name for the program of a document, which no module has."""
    return "_".join(["page", *path.relative_to(ROOT).with_suffix("").parts]).replace("-", "_")


# The programs of documents: a page is one, and each block of the README is another.
DOCUMENTS = {f"{script_name(path)}.py": blocks(path) for path in sorted(PAGES)} | {
    f"readme_line_{block.line}.py": [block] for block in blocks(ROOT / "README.md")
}
# Scripts run one after the other in a process, which imports each framework once. Kernels print to
# the file descriptor of standard output.
RUNNER = """
import json, os, runpy, sys, tempfile, traceback
found, output = {}, os.dup(1)
for script, *arguments in json.loads(sys.argv[1]):
    sys.argv = [script, *arguments]
    with tempfile.TemporaryFile("w+") as text:
        os.dup2(text.fileno(), 1)
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:
            found[script] = "FAILED\\n" + traceback.format_exc()
        sys.stdout.flush()
        os.dup2(output, 1)
        text.seek(0)
        found.setdefault(script, text.read())
print("\\n" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[str, str]:
    """What every example and document prints, or how it fails, by its name."""
    scripts: dict[str, list[str]] = {}
    for name, found in DOCUMENTS.items():
        (folder / name).write_text(script(found))
        scripts[str(folder / name)] = []
    # Last, since one has JAX compute with 64 bits from then on.
    scripts |= {str(EXAMPLES / name): ["--small"] for name in PROGRAMS}
    given = json.dumps([[script, *arguments] for script, arguments in scripts.items()])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{RUNNER}"]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [*command, given], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {Path(script).name: text for script, text in found.items()}


def test_examples_are_short() -> None:
    lines = {name: len((EXAMPLES / name).read_text().splitlines()) for name in PROGRAMS}
    assert {name: n for name, n in lines.items() if n > MAX_LINES} == {}


def test_every_example_and_document_runs(printed: dict[str, str]) -> None:
    assert len(printed) == len(PROGRAMS) + len(DOCUMENTS)
    assert [text for text in printed.values() if text.startswith("FAILED")] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_of_documents_print_what_follows_them(name: str, printed: dict[str, str]) -> None:
    assert wrong_outputs(DOCUMENTS[name], printed[name]) == []


def test_every_block_of_the_readme_shows_its_output() -> None:
    found = blocks(ROOT / "README.md")
    assert len(found) == 5
    assert [block.line for block in found if block.output is None] == []


def test_every_stage_is_printed(printed: dict[str, str]) -> None:
    text = printed["00_how_it_works.py"]
    signs = ["@kc.kernel", "grid 1 {", "normalize_rows_vjp(", "define ", ".globl"]
    positions = [text.index(sign) for sign in signs]
    assert positions == sorted(positions)


def test_denoising_runs_and_the_three_ways_agree(printed: dict[str, str]) -> None:
    difference = float(printed["01_tv_denoise.py"].split("between the three: ")[1].split()[0])
    assert difference < 1e-4


def test_composites_agree_with_numpy(printed: dict[str, str]) -> None:
    lines = printed["02_composites.py"].splitlines()
    assert len(lines) == 7
    assert all(float(line.split()[-1]) < 1e-12 for line in lines)


@pytest.mark.parametrize("name", ["05_adam_in_torch.py", "06_adam_in_paddle.py"])
def test_optimisers_of_frameworks_find_the_minimum(name: str, printed: dict[str, str]) -> None:
    lines = printed[name].splitlines()
    sums = [float(line.split()[-1]) for line in lines if "sum of squares" in line]
    minima = [line.partition("at (")[2].rstrip(")") for line in lines if "minimum at" in line]
    assert len(sums) == 2
    assert all(left < 1e-12 for left in sums)
    assert minima
    for point in minima:
        # Steps of a fixed rate keep points moving around the minimum.
        assert all(abs(float(x) - 1.0) < 0.02 for x in point.split(", "))


def numbers(text: str) -> list[list[float]]:
    """The numbers in each line."""
    return [
        [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?", line)]
        for line in text.splitlines()
    ]


def test_programs_draw_pictures(folder: Path, printed: dict[str, str]) -> None:
    assert printed.keys() >= PICTURES.keys()
    for name in PICTURES.values():
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_programs_print_what_is_known(printed: dict[str, str]) -> None:
    found = {name[3:-3]: numbers(text) for name, text in printed.items()}
    for first, last, *_ in found["learned_activation"]:
        assert last < 0.6 * first
    ((_, _, _, first, last),) = found["splats"]
    assert last < 0.5 * first
    (first, last, *_), gradients = found["cloth"]
    assert last < 0.1 * first
    assert gradients[:3] == pytest.approx(gradients[3:], abs=2e-5)
    assert max(map(abs, gradients)) > 1e-3
    assert all(share > 60.0 for share, _ in found["graph_attention"])
    for _, error, _, _, away in found["option_pricing"]:
        assert error > 0.0
        assert away < 4.0
    fields, gradients = found["wave_equation"]
    assert max(fields[-1], gradients[-1]) < 1e-6
    ((_, error, largest),) = found["nearest_neighbours"]
    assert error < 1e-6 < largest
    noisy, blurred, bilateral = found["bilateral_filter"]
    assert bilateral > noisy > blurred
    ((*_, mean),) = found["reaction_diffusion"]
    assert 0.02 < mean < 0.2
    ((*_, fastest),) = found["lattice_boltzmann"]
    assert 0.1 < fastest < 0.25
    ((*_, light),) = found["path_tracer"]
    assert 0.3 < light < 0.7
    # The lens is symmetric, as its start is, and bends the rays to a twentieth of the spot.
    ((front, back, first, last),) = found["lens"]
    assert front == pytest.approx(-back, abs=0.01)
    assert last < 0.05 * first
    ((_, first, last),) = found["inverse_problem"]
    assert last < 0.01 * first
    ((first, last),) = found["orbits"]
    assert last < 0.5 * first
    ((noisy_error, error),) = found["image_filters"]
    assert error < noisy_error
    ((*shares,),) = found["newton_fractal"]
    assert sum(shares) == pytest.approx(1.0, abs=0.002)
    assert shares[1] == pytest.approx(shares[2], abs=0.01)
