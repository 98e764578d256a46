// Carries the precompiled header (Pch.h); has no code of its own.
