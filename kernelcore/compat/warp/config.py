"""Settings under the names of NVIDIA Warp, as ``wp.config``."""

from __future__ import annotations

from typing import Any

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError, suggestion
from kernelcore.compat.warp.runtime import DeterministicMode, LaunchArrayAccessMode

# Settings that change nothing here, and their values in Warp: caches, compilers and messages are
# kernelcore's own, and its results are those of IEEE 754 in any case.
_WITHOUT_EFFECT: dict[str, Any] = {
    "cache_kernels": True,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_arch_suffix": None,
    "cuda_output": None,
    "default_grid_stride": True,
    "deterministic_debug": False,
    "deterministic_max_records": 0,
    "enable_backward": True,
    "enable_cpu_blocks": False,
    "enable_graph_capture_module_load_by_default": True,
    "enable_mathdx_fft": True,
    "enable_mathdx_gemm": True,
    "enable_mathdx_solver": True,
    "enable_mempools_at_init": True,
    "enable_tiles_in_stack_memory": None,
    "enable_vector_component_overwrites": False,
    "kernel_cache_dir": None,
    "launch_array_access_mode": LaunchArrayAccessMode.RELAXED,
    "legacy_cpu_linker": False,
    "legacy_scalar_return_types": False,
    "line_directives": True,
    "lineinfo": False,
    "llvm_cuda": False,
    "load_module_max_workers": 0,
    "log_level": 20,
    "max_unroll": 16,
    "print_launches": False,
    "ptx_target_arch": None,
    "track_memory": False,
    "use_precompiled_headers": True,
    "verbose": False,
    "verbose_warnings": False,
    "verify_autograd_array_access": False,
}


# The settings of kernelcore, by the names of Warp.
_OWN = {
    "deterministic": "deterministic",
    "mode": "mode",
    "quiet": "quiet",
    "verify_cuda": "verify_cuda",
    "verify_fp": "check_finite",
}


class Config:
    """Settings of this process.

    ``mode``, ``verify_cuda``, ``quiet`` and ``deterministic`` are those of ``kernelcore.config``;
    ``verify_fp`` is its ``check_finite``, and ``optimization_level`` its ``optimize``, for which 0
    is False. Other names of Warp are kept and change nothing.
    """

    DeterministicMode = DeterministicMode
    LaunchArrayAccessMode = LaunchArrayAccessMode

    def __init__(self) -> None:
        self.__dict__["_kept"] = dict(_WITHOUT_EFFECT)

    def __dir__(self) -> list[str]:
        own = {"DeterministicMode", "LaunchArrayAccessMode", "optimization_level", "version"}
        return sorted({*_OWN, *self._kept, *own})

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            return getattr(kc.config, _OWN[name])
        if name == "optimization_level":
            return 3 if kc.config.optimize else 0
        if name == "version":
            return kc.__version__
        try:
            return self.__dict__["_kept"][name]
        except KeyError:
            raise AttributeError(f"config has no setting '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "deterministic":
            # Warp has levels, from 0 for results that may differ.
            kc.config.deterministic = bool(getattr(value, "value", value))
        elif name in _OWN:
            setattr(kc.config, _OWN[name], value)
        elif name == "optimization_level":
            kc.config.optimize = value is None or value > 0
        elif name in self._kept:
            self._kept[name] = value
        else:
            names = [*_OWN, *self._kept, "optimization_level"]
            raise KernelArgumentError(
                f"config: there is no setting '{name}'",
                remedy=suggestion(name, names, f"the settings are {', '.join(sorted(names))}"),
            )


config = Config()
