"""The Tape, and checks of derivatives. May import: launch and below."""
