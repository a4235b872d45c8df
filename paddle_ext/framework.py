"""The framework of this package; imported first, to say how to install it."""

from kernelcore.base.errors import require_framework

require_framework("paddle", __name__.partition(".")[0])
