"""Query kinds, one file each: the request, its flag on the command line, its words and its questions.

To add a kind, write its file and name it in `KINDS`: workload files, the command line, configuration
files, the mechanisms and `evaluate` go through the request and its questions alone.
"""

from __future__ import annotations

from factored_mwem.workload.queries.base import QueryRequest
from factored_mwem.workload.queries.cuboids import CubeRequest
from factored_mwem.workload.queries.labels import LabelRequest
from factored_mwem.workload.queries.parities import ParitiesRequest
from factored_mwem.workload.queries.ranges import RangesRequest

KINDS: dict[str, type[QueryRequest]] = {
    k.key: k for k in (LabelRequest, CubeRequest, RangesRequest, ParitiesRequest)
}
"""What a workload may ask besides marginals, by its name in files and manifests."""
