"""CUDA: Triton source from tile IR, compiled to cubins and launched through the driver."""
