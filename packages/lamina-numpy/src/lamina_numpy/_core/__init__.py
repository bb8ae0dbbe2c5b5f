"""What every function here stands on: promotion, publishing, shapes, choice, conversion, scalar types."""
