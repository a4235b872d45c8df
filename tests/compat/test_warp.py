"""Programs written for NVIDIA Warp, with the results that ``tests.compat.record`` had of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
import kernelcore.compat.warp as wp
from tests.compat.language_programs import NUMBERS
from tests.compat.record import FILE, PROGRAMS, as_lists

EXPECTED: dict[str, list[Any]] = json.loads(FILE.read_text())
CUBES = NUMBERS.astype(float) ** 3
# Programs that Warp computes otherwise, and what is right: the gradient through a loop whose length
# the kernel is given takes every iteration's value, not that of the last one.
EXACT = {
    "gradients_through_loops_and_branches": (
        [np.where(CUBES < 0, np.sin(CUBES), CUBES).sum()],
        3 * NUMBERS.astype(float) ** 2 * np.where(CUBES < 0, np.cos(CUBES), 1),
    )
}


def test_every_program_has_results() -> None:
    assert sorted(EXPECTED) == sorted(PROGRAMS)
    assert len(PROGRAMS) >= 150


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - set(EXACT)))
def test_results_are_those_of_warp(name: str) -> None:
    for mine, theirs in zip(as_lists(PROGRAMS[name](wp)), EXPECTED[name], strict=True):
        found, expected = np.array(mine, float), np.array(theirs, float)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
        # The sign of zero, too.
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("name", EXACT)
def test_exact_results_differ_from_those_of_warp(name: str) -> None:
    for mine, exact in zip(as_lists(PROGRAMS[name](wp)), EXACT[name], strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(as_lists(EXACT[name])[1], EXPECTED[name][1], rtol=1e-3)


@wp.func
def size_of(x: float) -> int:
    return 1


@wp.func
def size_of(v: wp.vec3) -> Any:  # noqa: F811
    return 7 / -2


def test_functions_have_overloads() -> None:
    @wp.kernel
    def sizes(out: wp.array(dtype=int)):
        out[0] = size_of(1.0)
        out[1] = size_of(wp.vec3(1.0))

    out = wp.zeros(2, dtype=int)
    wp.launch(sizes, 1, [out])
    assert out.numpy().tolist() == [1, -3]


@wp.kernel(module="unique")
def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def _cubed() -> tuple[Any, Any]:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    return x, wp.zeros(2, dtype=float, requires_grad=True)


def test_jacobians_of_kernels_and_functions_are_by_position() -> None:
    autograd: Any = wp.autograd
    x, y = _cubed()

    def function(a: Any) -> Any:
        b = wp.zeros_like(a)
        wp.launch(cubes, 2, [a], [b])
        return b

    calls = ((cubes, {"dim": 2, "inputs": [x], "outputs": [y]}), (function, {"inputs": [x]}))
    for called, options in calls:
        exact = autograd.jacobian(called, **options)
        assert list(exact) == [(0, 0)]
        assert exact[0, 0].numpy().tolist() == [[3.0, 0.0], [0.0, 12.0]]
        numeric = autograd.jacobian_fd(called, eps=1e-2, **options)
        np.testing.assert_allclose(numeric[0, 0].numpy(), exact[0, 0].numpy(), 1e-3, 1e-3)
        assert autograd.gradcheck(called, eps=1e-2, show_summary=False, **options)
        assert x.numpy().tolist() == [1.0, 2.0]
    masks = ([("x", "y")], [(0, 1)], [(0, 0)])
    for mask in masks:
        found = autograd.jacobian(cubes, 2, [x], [y], input_output_mask=mask)
        assert list(found) == [(0, 0)]
    assert autograd.jacobian(cubes, 2, [x], [y], input_output_mask=[("x", "z")]) == {}
    figure = autograd.jacobian_plot(exact, cubes, inputs=[x], show_plot=False, title="of cubes")
    assert figure.axes[0].get_xlabel() == "x"
    assert figure.axes[0].get_ylabel() == "y"


@wp.func
def doubled(x: float) -> float:
    return 2.0 * x


@wp.func_grad(doubled)
def _doubled_gradient(x: float, ct: float):
    wp.adjoint[x] += 5.0 * ct


@wp.kernel
def doubles(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = doubled(x[i])


def test_wrong_gradients_are_found() -> None:
    autograd: Any = wp.autograd
    x, y = _cubed()
    assert not autograd.gradcheck(doubles, 2, [x], [y], eps=1e-2, raise_exception=False)
    with pytest.raises(kc.KernelGradError, match="input 0 is 5 by the adjoint and"):
        autograd.gradcheck(doubles, 2, [x], [y], eps=1e-2)
    with wp.Tape() as tape:
        wp.launch(cubes, 2, [x], [y])
    assert autograd.gradcheck_tape(tape, eps=1e-2)
    with tape:
        wp.launch(doubles, 2, [x], [y])
    assert not autograd.gradcheck_tape(tape, eps=1e-2, raise_exception=False)
    with pytest.raises(kc.KernelArgumentError, match="check single kernels"):
        autograd.gradcheck_tape(tape, blacklist_kernels=["cubes"])


def test_tapes_have_scopes_launches_and_adjoints() -> None:
    x, y = _cubed()
    with wp.Tape() as tape:
        tape.record_scope_begin("forward")
        wp.launch(cubes, 2, [x], [y])
        tape.record_scope_end()
        tape.record_scope_begin("nothing")
        tape.record_scope_end()
    assert [name for _, name, _ in tape.scopes] == ["forward", None]
    ((kernel, dim, _, arguments, _),) = tape.launches
    assert (kernel.key, dim, arguments) == ("cubes", 2, [x, y])
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert tape.get_adjoint(x).numpy().tolist() == [3.0, 12.0]
    tape.reset()
    assert (tape.launches, tape.scopes, tape.loss) == ([], [], None)


def test_options_of_modules_are_accepted_and_unknown_ones_refused() -> None:
    module = cubes.module
    assert (module.name, module.options["max_unroll"]) == (__name__, 16)
    assert wp.get_module(__name__) is module
    wp.set_module_options({"fast_math": True, "mode": "release", "max_unroll": 4})
    options = wp.get_module_options()
    assert (options["fast_math"], options["max_unroll"], module.options["mode"]) == (
        True,
        4,
        "release",
    )
    with pytest.raises(kc.KernelArgumentError, match="mean 'fast_math'"):
        wp.set_module_options({"fastmath": True})
    assert {"cubes", "doubles"} <= module.kernels.keys()
    module.load("cpu")
    wp.load_module(module)
    wp.force_load("cpu", modules=[module])


def test_devices_say_what_they_lack() -> None:
    device = wp.get_device("cpu")
    assert device == "cpu" == wp.get_preferred_device() == wp.get_devices()[0]
    assert not any((device.is_mempool_supported, device.is_uva, device.is_capturing))
    assert device.can_access("cpu")
    assert 0 < device.free_memory <= device.total_memory
    assert (device.sm_count, device.arch) == (0, 0)
    x = wp.zeros(2, dtype=float, device=device)
    assert x.device == device
    wp.config.deterministic = wp.config.DeterministicMode.RUN_TO_RUN
    assert kc.config.deterministic
    wp.config.deterministic = wp.config.DeterministicMode.NOT_GUARANTEED
    assert not kc.config.deterministic


def test_one_composite_makes_an_array_of_one_element() -> None:
    eye = np.eye(3, dtype=np.float32)
    assert wp.array(wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3).shape == (1,)
    assert wp.array([1.0, 2.0, 3.0], dtype=wp.vec3).shape == (1,)
    assert wp.from_numpy(eye, dtype=wp.mat33).shape == (1,)
    assert wp.from_numpy(eye, dtype=wp.vec3).shape == (3,)
    assert (wp.mat22._shape_, wp.vec4d._length_, wp.vec4d._wp_scalar_type_) == (
        (2, 2),
        4,
        wp.float64,
    )


@wp.func(module="unique", inline=True)
def third(x: wp.Float) -> Any:
    return wp.div_approx(x, type(x)(3.0))


def test_expectations_print_what_fails(capfd: pytest.CaptureFixture[str]) -> None:
    @wp.kernel
    def kernel(x: wp.array(dtype=float)):
        wp.expect_eq(x[0], 3.0)
        wp.expect_eq(wp.vec2(1.0), wp.vec2(1.0))
        wp.expect_neq(1, 1)
        wp.expect_near(third(x[0]), 1.0, 1e-6)
        wp.expect_near(wp.vec2(1.0), wp.vec2(1.0, 2.0), 0.5)
        wp.expect_near(wp.inverse_approx(wp.mat22(2.0, 0.0, 0.0, 2.0))[1, 1], 0.5, 0.0)

    wp.launch(kernel, 1, [wp.array([3.0], dtype=float)])
    lines = capfd.readouterr().out.splitlines()
    assert [line.split("(")[0] for line in lines] == ["Error, expect_neq", "Error, expect_near"]


def test_segments_are_sorted() -> None:
    keys = wp.array([3, 1, 2, 9, 8, 7, 0, 0, 0, 0, 0, 0], dtype=int)
    values = wp.array([0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0], dtype=int)
    wp.utils.segmented_sort_pairs(keys, values, 6, wp.array([0, 3, 6], dtype=int))
    assert keys.numpy()[:6].tolist() == [1, 2, 3, 7, 8, 9]
    assert values.numpy()[:6].tolist() == [1, 2, 0, 5, 4, 3]


def test_what_is_missing_is_named_in_kernels() -> None:
    @wp.kernel
    def kernel(x: wp.array(dtype=float)):
        t = wp.tile_load(x, 3)
        x[0] = float(wp.volume_sample_i(wp.uint64(0), wp.vec3())) + t[0]

    with pytest.raises(kc.KernelNameError, match="2 errors") as caught:
        _ = kernel.func
    text = str(caught.value)
    assert "write a loop over the tile in the kernel" in text
    assert "use dense arrays of 3 dimensions" in text
    assert "did you mean" not in text


def test_kernels_are_made_of_the_function_of_another() -> None:
    @wp.kernel
    def quotients(x: wp.array(dtype=int)):
        x[wp.tid()] /= 2

    def plain(x: wp.array(dtype=int)):
        x[wp.tid()] /= 2

    first = wp.Kernel(func=quotients.func, key="again", module=wp.get_module("other"))
    second = wp.Kernel(plain, options={"enable_backward": False})
    kernel_class: Any = wp.Kernel
    assert isinstance(quotients, kernel_class)
    assert (first.key, second.options) == ("again", {"enable_backward": False})
    x = wp.array([-100], dtype=int)
    for kernel in (quotients, first, second):
        wp.launch(kernel, 1, [x])
    assert x.numpy().tolist() == [-12]


def test_marks_of_arrays_mean_nothing() -> None:
    x = wp.zeros(2, dtype=float, requires_grad=True)
    x.mark_init()
    x.mark_read()
    wp.config.launch_array_access_mode = wp.config.LaunchArrayAccessMode.RELAXED
    assert wp.get_device("cpu").ordinal == -1
