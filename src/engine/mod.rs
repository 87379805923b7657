//! Runs planned passes: the trait, the CPU engine, the probe for CUDA.
