"""``python -m kernelcore port``: what becomes of a program written for NVIDIA Warp."""

from kernelcore.compat.warp.port.command import port as port
from kernelcore.compat.warp.port.reading import read_program as read_program
