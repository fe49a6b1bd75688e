"""Operations on vectors of elements: arithmetic, casts, narrow types, vector maths."""
