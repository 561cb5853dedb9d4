"""`python scripts/audit` (see `command`) and `python scripts/audit verify` (see `verify`)."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    if sys.argv[1:2] == ["verify"]:
        sys.argv[:2] = ["audit verify"]
        from audit.verify import main
    else:
        from audit.command import main
    sys.exit(main())
