"""Delivery: from the schedule to the consumer's answer."""
from panels.panel import Dashboard, Panel, Row, quantiles, rate

LATE = Row("What is late, and why?", [
    Panel("Lateness of first attempts, all", "How many first attempts were so late. A bright band above 60 s breaks the promise.", "s",
          [("sum by (le) (increase(escapement_handler_lateness_seconds_bucket{@}[$__rate_interval]))", "{{le}}")], "heatmap"),
    Panel("Lateness by handler", "99th percentile. One handler alone: its machine. All: the store, or the load.", "s",
          [("histogram_quantile(0.99, sum by (instance, pod, le) (rate(escapement_handler_lateness_seconds_bucket{@}[$__rate_interval])))",
            "{{pod}} {{instance}}")], log=True),
    Panel("Oldest overdue event by handler", "How late the oldest event is that is due and not yet claimed. It grows by a second each second "
          "while nothing goes on. Events that wait for their target do not count.", "s", [("max by (instance, pod) (escapement_handler_oldest_overdue_seconds{@})", "{{pod}} {{instance}}")]),
    Panel("Emitter behind", "Store time less the time up to which events are written. Negative is good; positive makes events late.", "s",
          [("max by (instance, pod) (escapement_emitter_behind_seconds{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Commit time of the store", "99th percentile. Each claim and each end is a commit: if this is slow, everything is. The variable Instance "
          "has no effect here, because it usually names handlers.", "s",
          [("max by (cluster, namespace, job, cell) (job:escapement_store_commit_seconds:p99_5m{@job})", "{{job}} {{cell}}")], width=6, log=True),
    Panel("Events out", "Events that are claimed and not answered. At the handler's events_out_max (16384) nothing more is claimed.", "short",
          [("sum by (instance, pod) (escapement_handler_events_out{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Queue rows in memory", "Rows that are due soon. A row stands for a slice of a run.", "short",
          [("sum by (instance, pod) (escapement_handler_rows_in_memory{@})", "{{pod}} {{instance}}")], width=6),
])

TARGETS = Row("Which kind of target is in trouble?", [
    Panel("Targets by state", "Endpoints used in the last minutes, by state of their circuit breaker. `escctl target list` names them.", "short",
          [("sum by (transport, state) (escapement_handler_targets{@}) > 0", "{{transport}} {{state}}")]),
    Panel("Openings of circuit breakers", "Also of probes that failed: at most once a minute for each endpoint that is down.", "short",
          [("sum by (transport) (increase(escapement_handler_breaker_openings_total{@}[$__rate_interval]))", "{{transport}}")]),
    Panel("Attempts that fail", "Per second, by transport.", "reqps", [(rate("escapement_handler_attempts_failed_total", "transport"), "{{transport}}")]),
    Panel("Time of attempts", "99th percentile from sending to the answer, by transport.", "s",
          [("histogram_quantile(0.99, sum by (transport, le) (rate(escapement_handler_attempt_seconds_bucket{@}[$__rate_interval]))) >= 0",
            "{{transport}}")], log=True),
    Panel("Attempts by transport", "Attempts per second that have ended.", "reqps",
          [(rate("escapement_handler_attempt_seconds_count", "transport"), "{{transport}}")]),
    Panel("Pauses that targets asked for", "Targets that answered 429, or 503 with Retry-After: they get more than they can take.", "short",
          [("sum(increase(escapement_handler_target_pauses_total{@}[$__rate_interval]))", "pauses")]),
    Panel("Events that grew too old", "Events that failed because their target was down or asked for pauses for longer than their retry policy's max_age.", "short",
          [("sum(increase(escapement_handler_held_events_failed_total{@}[$__rate_interval]))", "too old")]),
])

FAIL = Row("What fails?", [
    Panel("Dead letters", "Events that failed for good, per minute. `escctl deadletter list` has the reasons.", "short",
          [("60 * " + rate("escapement_handler_dead_letters_total"), "without a policy"),
           ("60 * " + rate("escapement_token_manager_failed_total"), "throttled")], runbook="EscapementDeliveryBurns"),
    Panel("Retries", "Attempts that will be followed by another one.", "reqps",
          [(rate("escapement_handler_retries_total"), "without a policy"), (rate("escapement_token_manager_retries_total"), "throttled")]),
    Panel("Suspects and quarantined", "Events that were with two lost handlers, and those that ended after the third. Healthy: 0.", "short",
          [("sum(increase(escapement_handler_suspects_total{@}[$__rate_interval]))", "suspects"),
           ("sum(increase(escapement_handler_quarantined_total{@}[$__rate_interval]))", "quarantined"),
           ("sum(escapement_handler_broken_rows_total{@})", "broken rows")]),
])

SHARDS = Row("Who owns the queue?", [
    Panel("Queue shards held", "They should be spread evenly, and together be all shards (8 unless the store was made with another number).",
          "short", [("sum by (instance, pod) (escapement_handler_shards_held{@})", "{{pod}} {{instance}}")], stacked=True),
    Panel("Shards and partitions that nobody holds", "By program and cell. Healthy: 0, except for seconds after a process has ended.", "short",
          [("max by (cell, program) (escapement_leases_wanted{@}) - sum by (cell, program) (escapement_leases_held{@})", "{{program}} {{cell}}")],
          runbook="EscapementEventsOverdue"),
    Panel("Leases acquired and lost", "By program. Lost leases without a restart: the process stalls, or the store does.", "short",
          [("sum by (program) (increase(escapement_leases_acquired_total{@}[$__rate_interval]))", "acquired {{program}}"),
           ("sum by (program) (increase(escapement_leases_lost_total{@}[$__rate_interval]))", "lost {{program}}")]),
    Panel("Claims", "Claims per second, those whose conditions did not hold, and events sent again for a former owner.", "reqps",
          [(rate("escapement_handler_claims_total"), "claims"), (rate("escapement_handler_claims_failed_total"), "did not hold"),
           (rate("escapement_handler_takeovers_total"), "sent again")]),
])

EMISSION = Row("Are schedules turned into events?", [
    Panel("Occurrences", "Occurrences of schedules per second, and their events.", "reqps",
          [(rate("escapement_emitter_occurrences_total"), "occurrences"), (rate("escapement_emitter_events_total"), "events")]),
    Panel("Late and skipped occurrences", "Written after they were due, or not fired because their misfire policy says so.", "short",
          [("sum(increase(escapement_emitter_occurrences_late_total{@}[$__rate_interval]))", "late"),
           ("sum(increase(escapement_emitter_occurrences_skipped_total{@}[$__rate_interval]))", "skipped")]),
    Panel("Partitions held", "By emitter; together 16 unless the store was made with another number.", "short",
          [("sum by (instance, pod) (escapement_emitter_partitions{@})", "{{pod}} {{instance}}")], stacked=True),
])

DELIVERY = Dashboard("delivery", "Escapement / Delivery", "What is late and why, which targets are in trouble, what fails?",
                     [LATE, TARGETS, FAIL, SHARDS, EMISSION])
