"""What a kernel reads of Python besides its arguments."""
