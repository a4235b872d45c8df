"""Intervals that tests draw the arguments of built-ins from."""

INTEGERS = (-9, 9)
_FLOATS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("div", "pow"), (0.5, 2.0)),
    **dict.fromkeys(("floordiv", "mod", "fmod"), (0.3, 3.0)),
    **dict.fromkeys(("tan",), (-1.2, 1.2)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9)),
    **dict.fromkeys(("atan2",), (0.3, 2.0)),
    **dict.fromkeys(("acosh",), (1.1, 3.0)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "hypot", "cbrt"), (0.1, 3.0)),
    **dict.fromkeys(("log1p",), (-0.5, 3.0)),
}


def floats(name: str) -> tuple[float, float]:
    """The interval of the float arguments of the built-in ``name``."""
    return _FLOATS.get(name, (-2.0, 2.0))
