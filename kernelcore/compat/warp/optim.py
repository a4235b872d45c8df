"""``warp.optim``: steps down a gradient."""

from kernelcore.optim import SGD as SGD
from kernelcore.optim import Adam as Adam
