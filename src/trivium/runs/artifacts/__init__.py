"""What the trust commands answer: artifacts made of items, as plain JSON values."""
