"""Properties that hold for all input, tried with hypothesis against simple models."""
