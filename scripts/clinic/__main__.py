"""The made-up clinic of datasets/clinic: patients and their visits. Nobody's data, the same bytes every time.

    python scripts/clinic datasets/clinic

Older patients come more often, and each ward has its own patients and lengths of stay; in the rows of the two
tables nothing else is to be found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

PATIENTS = 3000


def tables() -> dict[str, str]:
    """The two tables as text, by file."""
    rng = np.random.Generator(np.random.PCG64(20_261_127))
    age, sex = rng.integers(0, 95, PATIENTS), rng.integers(0, 2, PATIENTS)
    patients = [f"{p},{a},{'FM'[s]}" for p, (a, s) in enumerate(zip(age, sex, strict=True))]
    visits = []
    for patient in range(PATIENTS):
        for _ in range(min(int(rng.poisson(0.6 + age[patient] / 60)), 9)):
            ward = (
                "maternity" if sex[patient] == 0 and 18 <= age[patient] < 45 and rng.random() < 0.6 else None
            )
            ward = ward or ("geriatrics" if age[patient] > 70 and rng.random() < 0.7 else None)
            ward = ward or ("surgery" if rng.random() < 0.4 else "general")
            days = int(rng.geometric({"maternity": 0.4, "geriatrics": 0.1}.get(ward, 0.25)))
            visits.append(f"{len(visits)},{patient},{ward},{min(days, 30)}")
    return {
        "patients.csv": "\n".join(["patient_id,age,sex", *patients]) + "\n",
        "visits.csv": "\n".join(["visit_id,patient_id,ward,days", *visits]) + "\n",
    }


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name, text in tables().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
