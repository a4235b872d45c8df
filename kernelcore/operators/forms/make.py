"""The form of a kernel or a function for a framework, and the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelcore.launch.infer_types import Parameter
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.forms.base import Form
from kernelcore.operators.forms.function import FunctionForm
from kernelcore.operators.forms.kernel import KernelForm
from kernelcore.operators.spec import Spec, with_results
from kernelcore.operators.traced.interface import declared_parameters, with_function_results


def make_form(framework: str, declared: Kernel | Callable[..., Any], spec: Spec) -> Form:
    """The form of a kernel or a function for the arrays of ``framework``."""
    if isinstance(declared, Kernel):
        return KernelForm(framework, declared, spec)
    return FunctionForm(framework, declared, spec)


def arguments_of(declared: Kernel | Callable[..., Any], spec: Spec) -> list[Parameter]:
    """The parameters that a call gives."""
    if isinstance(declared, Kernel):
        outputs, known = with_results(declared, spec).outputs, declared.parameters
    else:
        outputs = with_function_results(declared, spec).outputs
        known = [p for p, _ in declared_parameters(declared)]
    return [p for p in known if p.name not in (outputs or ())]
