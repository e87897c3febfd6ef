"""`fourfold`, also as `python -m fourfold`."""


def main() -> None:
    """Ctrl-C gives no traceback, also while the command line is imported."""
    try:
        from fourfold.cli.main import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
