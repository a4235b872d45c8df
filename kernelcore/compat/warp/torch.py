"""``warp.torch``: conversions between arrays and tensors."""

from kernelcore import device_from_torch as device_from_torch
from kernelcore import device_to_torch as device_to_torch
from kernelcore import dtype_from_torch as dtype_from_torch
from kernelcore import dtype_to_torch as dtype_to_torch
from kernelcore import from_torch as from_torch
from kernelcore import stream_from_torch as stream_from_torch
from kernelcore import stream_to_torch as stream_to_torch
from kernelcore import to_torch as to_torch
