"""What the machine gives: files, processors, caches, and the answer to "has it changed?"."""
