"""One module per format, and what they share for looking at bytes: ELF headers, text patterns, paths."""
