"""What the benchmarks share: who takes part, what is described once, tables and intervals."""
