"""`python -m billhook` is `billhook`."""

from billhook.cli import main

main()
