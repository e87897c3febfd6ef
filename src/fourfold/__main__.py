"""`python -m fourfold`."""

from fourfold.cli.main import main

main()
