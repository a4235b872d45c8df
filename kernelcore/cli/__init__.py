"""What ``python -m kernelcore`` runs. May import: everything in kernelcore."""
