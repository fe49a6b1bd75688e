"""The op table: every operation of the language, declared once."""
