"""Devices, streams, memory, arrays, structs on the host. May import: base and language."""
