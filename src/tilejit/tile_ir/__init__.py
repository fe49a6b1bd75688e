"""The tile IR: xDSL dialect, builder, verifier, text forms, structural equality."""
