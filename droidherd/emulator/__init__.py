"""Operations on one emulator: what is done to it, under which lease, and what it answered."""
