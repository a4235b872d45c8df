"""The GPUs that there is code for, by the names of NVIDIA."""

from __future__ import annotations

# Architectures whose code runs on newer GPUs, and those specific to one GPU or family.
FORWARD_COMPATIBLE = (
    *("sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90"),
    *("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
)
SPECIFIC = (
    *("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_103f"),
    *("sm_110a", "sm_110f", "sm_120a", "sm_120f", "sm_121a", "sm_121f"),
)
ARCHITECTURES = (*FORWARD_COMPATIBLE, *SPECIFIC)
DEFAULT_ARCHITECTURE = "sm_75"
