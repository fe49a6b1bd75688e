"""A decoder-only transformer whose every computation is a kernel of ours; `python -m examples.llama --help`."""
