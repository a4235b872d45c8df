"""``warp.autograd``: derivatives compared with differences."""

from kernelcore import gradcheck as gradcheck
from kernelcore import jacobian as jacobian
from kernelcore import jacobian_fd as jacobian_fd
