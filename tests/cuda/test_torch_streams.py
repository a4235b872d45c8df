"""Streams of torch and streams here, over a torch that has no CUDA."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import kernelcore as kc
from tests.cuda.fake import FakeDriver
from torch_ext import stream_from_torch, stream_to_torch


def test_streams_of_torch_are_streams_here(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = kc.Stream("cuda:1")
    given = SimpleNamespace(cuda_stream=stream.cuda_stream, device=torch.device("cuda:1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: given)
    for one in (given, "cuda", torch.device("cuda:1"), None):
        found = stream_from_torch(one)
        assert (found.cuda_stream, found.device) == (stream.cuda_stream, "cuda:1")
    assert stream_from_torch("cpu") is kc.get_stream("cpu")


def test_streams_here_are_streams_of_torch(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def external(handle: int, device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(cuda_stream=handle, device=device)

    monkeypatch.setattr(torch.cuda, "ExternalStream", external)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: f"default of {device}")
    stream = kc.Stream("cuda:1")
    made = stream_to_torch(stream)
    assert (made.cuda_stream, str(made.device)) == (stream.cuda_stream, "cuda:1")
    assert made.kernelcore_stream is stream
    with kc.ScopedStream(stream):
        assert stream_to_torch("cuda:1").cuda_stream == stream.cuda_stream
    assert stream_to_torch("cuda:0") == "default of cuda:0"
    assert isinstance(stream_to_torch("cpu"), torch.cpu.Stream)
