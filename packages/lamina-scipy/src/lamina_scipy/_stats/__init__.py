"""What `stats` shows and uses: the class of distributions, density estimates, ranks."""
