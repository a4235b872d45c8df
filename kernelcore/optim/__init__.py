"""Steps down a gradient, in place, for programs of arrays and a Tape.

May import: base, language, runtime, launch.
"""

from kernelcore.optim.first_order import SGD as SGD
from kernelcore.optim.first_order import Adam as Adam
