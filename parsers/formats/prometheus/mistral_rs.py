"""mistral.rs's names (docs/guides/deploy/observability.mdx, mistralrs-server-core/src/metrics.rs of 2026-08).

The time to first token is counted for streams alone, and its gaps are between steps, which may give several
tokens. Nothing sums up tokens or times of finished requests.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="mistral-rs",
    title="mistral.rs /metrics",
    versions="0.9 (2026-08) and newer",
    prefixes=("mistralrs_",),
    model=(),
    ranks=(),
    select={"sequences_completed_total": "reason"},
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    running=("sequences_running",),
    waiting=("sequences_waiting",),
    aborted=("sequences_completed_total[canceled]",),
    failed=("sequences_completed_total[error]",),
)
