"""Kernels as torch operators."""

import torch_ext.framework  # noqa: F401
from torch_ext.callable import torch_callable as torch_callable
from torch_ext.dtype import dtype_from_torch as dtype_from_torch
from torch_ext.dtype import dtype_to_torch as dtype_to_torch
from torch_ext.entry import overload as overload
from torch_ext.entry import torch_op as torch_op
from torch_ext.export import export_ops as export_ops
from torch_ext.interop import device_from_torch as device_from_torch
from torch_ext.interop import device_to_torch as device_to_torch
from torch_ext.interop import from_torch as from_torch
from torch_ext.interop import stream_from_torch as stream_from_torch
from torch_ext.interop import stream_to_torch as stream_to_torch
from torch_ext.interop import to_torch as to_torch
