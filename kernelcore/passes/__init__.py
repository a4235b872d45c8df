"""IR to IR: simplify, differentiate, batch, analyse access. May import: frontend and below."""
