"""kernelcore for Paddle: tensors as arrays, arrays as tensors, kernels as operators."""

import paddle_ext.framework  # noqa: F401
from paddle_ext.device import device_from_paddle as device_from_paddle
from paddle_ext.device import device_to_paddle as device_to_paddle
from paddle_ext.device import stream_from_paddle as stream_from_paddle
from paddle_ext.dtype import dtype_from_paddle as dtype_from_paddle
from paddle_ext.dtype import dtype_to_paddle as dtype_to_paddle
from paddle_ext.operator import paddle_op as paddle_op
from paddle_ext.tensor import from_paddle as from_paddle
from paddle_ext.tensor import to_paddle as to_paddle
