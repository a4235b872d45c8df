"""Errors, settings, the disk cache, the host's processor, lazy imports. May import: nothing."""
