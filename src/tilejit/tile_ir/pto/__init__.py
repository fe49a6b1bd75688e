"""The pto dialect: its types, attributes and one table of all its ops, from which text, rules and execution follow."""
