"""What happens to a kernel on its way to machine code, as a page to look at."""
