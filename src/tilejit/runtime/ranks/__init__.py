"""Several ranks: groups and windows, engines that run them, plans of host functions."""
