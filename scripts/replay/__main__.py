"""`python scripts/replay` (see `command`) and `python scripts/replay fetch` (see `fetch`)."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    if sys.argv[1:2] == ["fetch"]:
        sys.argv[:2] = ["replay fetch"]
        from replay.fetch import main
    else:
        from replay.command import main
    sys.exit(main())
