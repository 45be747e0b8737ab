"""People's labels: queues that ask for them with known probability, several people, files, estimates."""
