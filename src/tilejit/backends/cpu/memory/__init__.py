"""Where values lie, and ops that move whole boxes of them."""
