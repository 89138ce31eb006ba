"""What is measured, and with what: `python -m benchmarks`, or `make bench`."""
