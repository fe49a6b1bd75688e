"""Many threads call different kernels at once, for a while: no difference, no crash, no growing memory."""
