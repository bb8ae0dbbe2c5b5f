"""What `signal` shows: convolutions, trends, windows and spectra."""
