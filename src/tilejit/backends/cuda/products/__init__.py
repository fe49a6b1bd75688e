"""Matrix products, and the loops around them."""
