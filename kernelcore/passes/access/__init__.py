"""What a kernel does to each array, and in which form it adds to shared elements."""
