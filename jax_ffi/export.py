"""export: jax.export for programs with kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jax import export as jax_export

from jax_ffi.platforms import embeds
from jax_ffi.registration import TARGET


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[jax_export.DisabledSafetyCheck] = (),
    embed_objects: bool = False,
) -> Any:
    """As ``jax.export.export``, of a jitted function that runs kernels.

    A process that loads the program finds each kernel by the hash of its content: in the disk
    cache, or where the module that defines it was imported and has called ``jax_kernel`` for it,
    which holds for calls whose shapes are the default ones and not for derivatives. Otherwise the
    error names the kernel. Such a process imports ``jax_ffi`` before it runs the program.

    Args:
        fun_jit: The function, jitted.
        platforms: As for ``jax.export.export``.
        disabled_checks: Further checks to disable; that of kernels' calls is not needed.
        embed_objects: Whether the program holds the code of its kernels, so that processes on the
            same kind of processor need nothing else; the code for GPUs runs on every one that
            kernelcore supports. So do the derivatives that ``serialize(vjp_order=...)`` stores.

    Returns:
        A function of arguments, or of their shapes, which returns a ``jax.export.Exported``.
    """
    allowed = jax_export.DisabledSafetyCheck.custom_call(TARGET)
    run = jax_export.export(
        fun_jit, platforms=platforms, disabled_checks=[allowed, *disabled_checks]
    )

    def exported(*args: Any, **named: Any) -> Any:
        with embeds(embed_objects):
            return _with_derivatives(run(*args, **named), embed_objects)

    return exported


def _with_derivatives(exported: Any, embeds_objects: bool) -> Any:
    """``exported``, whose derivatives of any order hold what it holds; JAX makes them later."""
    make = exported._get_vjp
    if make is None:
        return exported

    def get_vjp(of: Any) -> Any:
        with embeds(embeds_objects):
            return _with_derivatives(make(of), embeds_objects)

    return replace(exported, _get_vjp=get_vjp)


# Loads what ``export`` and ``serialize`` made, in a process that has the kernels.
deserialize = jax_export.deserialize
