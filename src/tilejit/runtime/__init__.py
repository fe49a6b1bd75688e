"""Running compiled programs; knows no compiler."""
