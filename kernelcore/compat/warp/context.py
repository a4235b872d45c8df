"""``warp.context``: names that programs took from this module of Warp before they were public."""

from kernelcore import Device as Device
from kernelcore import Function as Function
from kernelcore import Graph as Graph
from kernelcore import Kernel as Kernel
from kernelcore import Stream as Stream
from kernelcore import init as init
from kernelcore.compat.warp.runtime import Module as Module
