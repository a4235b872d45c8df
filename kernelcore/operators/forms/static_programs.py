"""The mark that keeps ``paddle.jit.to_static`` from translating the code of an operator."""

from __future__ import annotations


class AsItIs:
    """What ``paddle.jit.marker.unified`` attaches, made without importing Paddle.

    Paddle asks for it before it translates the code of what a program calls; the operator then
    gets the values of the program.
    """

    ATTRIBUTE = "___jit_transform_options___"

    def need_transform(self, mode: object) -> bool:
        """Whether Paddle translates the code."""
        return False

    def need_capture_control_flow(self) -> bool:
        """Whether Paddle translates branches and loops alone."""
        return False
