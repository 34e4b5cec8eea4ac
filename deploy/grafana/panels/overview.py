"""The overview: is it on time, is everything delivered, are all processes there?"""
from panels.panel import Dashboard, Panel, Row, quantiles, rate

ON_TIME = Row("Is it on time?", [
    Panel("Late first attempts, last hour", "Share of first attempts that were sent more than 60 s late. The objective allows 0.1 %.",
          "percentunit", [("max(job:escapement_first_attempts_late:ratio_rate1h{@job})", "late")], "stat", 5, 5,
          [(0, "green"), (0.001, "orange"), (0.0144, "red")], runbook="EscapementLatenessBurns"),
    Panel("Oldest overdue event", "How late the oldest event is that is due and not yet claimed. Healthy: below a second. Events that wait for "
          "their target do not count.", "s", [("max(escapement_handler_oldest_overdue_seconds{@})", "overdue")], "stat", 5, 5,
          [(0, "green"), (1, "orange"), (60, "red")], runbook="EscapementEventsOverdue"),
    Panel("Heartbeats, last 5 minutes", "Firings of the platform's own schedule, through emitter, store and handler. Every 10 s gives "
          "30. 0: the heartbeat is off (master flag heartbeat_every), or one of the three does not work.", "short",
          [("sum(increase(escapement_handler_heartbeats_total{@}[5m]))", "heartbeats")], "stat", 5, 5, [(0, "red"), (1, "green")],
          runbook="EscapementHeartbeatMissing"),
    Panel("Emitter behind", "How far the partition furthest behind is from store time. Negative: events are written ahead, as they should be.",
          "s", [("max(escapement_emitter_behind_seconds{@})", "behind")], "stat", 5, 5, [(-86400, "green"), (1, "orange"), (10, "red")],
          runbook="EscapementEventsOverdue"),
    Panel("Clock held", "1: emission waits until the store's clock is confirmed.", "short",
          [("max(escapement_store_clock_hold{@})", "held")], "stat", 4, 5, [(0, "green"), (1, "red")], runbook="EscapementClockDisagrees"),
    Panel("Lateness of first attempts", "From the due time (with a policy: from the grant) until the attempt is handed to the transport. "
          "Healthy: p99 in milliseconds.", "s", quantiles("escapement_handler_lateness_seconds"), width=12, log=True),
    Panel("Lateness of heartbeats", "The same for the heartbeat alone: no target of a user plays a part.", "s",
          quantiles("escapement_handler_heartbeat_lateness_seconds"), width=6, log=True),
    Panel("Burn of the lateness budget", "How many times faster than allowed the 30 days' budget burns. 14.4 over an hour pages.", "short",
          [("max(job:escapement_first_attempts_late:ratio_rate5m{@job}) / 0.001", "5 min"),
           ("max(job:escapement_first_attempts_late:ratio_rate1h{@job}) / 0.001", "1 h"),
           ("max(job:escapement_first_attempts_late:ratio_rate6h{@job}) / 0.001", "6 h")], width=6),
    Panel("Emission and heartbeats, as the masters see them", "How far the partition furthest behind is from store time, and how long the "
          "oldest heartbeat that has not ended has been due. A frozen emitter or handler shows here.", "s",
          [("max(escapement_master_emission_behind_seconds{@})", "emission behind"),
           ("max(escapement_master_heartbeat_late_seconds{@})", "heartbeat late")], width=12, runbook="EscapementOccurrencesMissing"),
    Panel("Occurrences without an account", "Occurrences of the last minutes that the masters have examined in an hour, and those of them of "
          "which the platform had no trace. Healthy: 0 unaccounted.", "short",
          [("sum(increase(escapement_master_occurrences_unaccounted_total{@}[1h]))", "unaccounted"),
           ("sum(increase(escapement_master_occurrences_sampled_total{@}[1h]))", "sampled")], width=12, log=True,
          runbook="EscapementOccurrencesMissing"),
])

DELIVERED = Row("Is everything delivered?", [
    Panel("Events that end", "Per second. Failed events are dead letters. Throttled events are counted by the token manager.", "reqps",
          [(rate("escapement_handler_succeeded_total"), "succeeded"),
           (rate("escapement_token_manager_succeeded_total"), "succeeded, throttled"),
           (rate("escapement_handler_dead_letters_total"), "failed"),
           (rate("escapement_token_manager_failed_total"), "failed, throttled"),
           (rate("escapement_handler_skipped_total"), "skipped or cancelled")]),
    Panel("Attempts", "Attempts that left and have ended, and those that are followed by another one.", "reqps",
          [(rate("escapement_handler_deliveries_total"), "attempts"), (rate("escapement_handler_accepted_total"), "accepted"),
           (rate("escapement_handler_retries_total"), "to be retried")]),
    Panel("Share of events that fail", "Dead letters among the events that end. The objective allows 1 %.", "percentunit",
          [("job:escapement_events_failed:ratio_rate5m{@job}", "{{job}} {{cell}} 5 min"),
           ("job:escapement_events_failed:ratio_rate1h{@job}", "{{job}} {{cell}} 1 h")], runbook="EscapementDeliveryBurns"),
    Panel("Targets in trouble", "Endpoints whose circuit breaker is open or half open, counted once for each handler.", "short",
          [('sum by (transport) (escapement_handler_targets{@,state=~"open|half_open"})', "{{transport}}")],
          runbook="EscapementTargetDown"),
    Panel("Events that wait for a token", "Events of all throttling policies without a token, those due within seconds included. See the dashboard Throttling.",
          "short", [("sum(escapement_token_manager_policy_events_waiting{@})", "waiting")]),
    Panel("Commits", "Commits of the store per second. See the dashboard Store.", "reqps", [(rate("escapement_store_commits_total"), "commits")],
          width=12),
    Panel("Commit time", "Of the store: from the request to its answer, when it is durable. Healthy: p99 below 50 ms. See the dashboard Store.",
          "s", quantiles("escapement_store_commit_seconds"), width=12, log=True, runbook="EscapementStoreSlow"),
])

PROCESSES = Row("Are all processes there, and well?", [
    Panel("Processes", "Each process with its version. Ready: 1 while /readyz answers 200; a follower of the store is not ready.", "short",
          [('min by (cluster, namespace, job, cell, instance, pod, program) (escapement_ready{@})', ""),
           ('max by (cluster, namespace, job, cell, instance, pod, program, version, commit) (escapement_build_info{@})', "")],
          "table", 12, columns={"cluster": "Cluster", "namespace": "Namespace", "job": "Job", "cell": "Cell", "pod": "Pod", "instance": "Instance", "program": "Program", "version": "Version", "commit": "Commit",
                                "Value #A": "Ready"}),
    Panel("Processes that are gone", "Processes of each program that were there within the last hour, less those that are there now. Healthy: 0, "
          "except for an hour after a process has moved to another address.", "short",
          [("count by (program) (max_over_time(escapement_ready{@}[1h])) - (count by (program) (escapement_ready{@}) "
            "or 0 * count by (program) (max_over_time(escapement_ready{@}[1h])))", "{{program}}")], width=12,
          runbook="EscapementServiceGone"),
    Panel("CPU", "Cores that each process uses.", "short",
          [("sum by (instance, pod) (rate(process_cpu_seconds_total{@}[$__rate_interval]))", "{{pod}} {{instance}}")], width=6),
    Panel("Resident memory", "Of each process.", "bytes", [("sum by (instance, pod) (process_resident_memory_bytes{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Leases lost", "Leases that a process did not give back of its own will. Healthy: 0, but for restarts.", "short",
          [("sum by (program) (increase(escapement_leases_lost_total{@}[$__rate_interval]))", "{{program}}")], width=6,
          runbook="EscapementLeasesFlap"),
    Panel("Sessions lost", "Sessions that the store had forgotten: it was started again with other data, or the process was cut off for "
          "long. Healthy: 0.", "short", [("sum by (program) (increase(escapement_store_sessions_lost_total{@}[$__rate_interval]))", "{{program}}")],
          width=6),
    Panel("Open files", "Share of the file descriptors that each process may open.", "percentunit",
          [("max by (instance, pod) (process_open_fds{@} / process_max_fds{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Running for", "Time since each process was started.", "s",
          [("time() - max by (instance, pod) (process_start_time_seconds{@})", "{{pod}} {{instance}}")], width=6),
])

CALLS = Row("Are calls answered?", [
    Panel("Calls by method", "Unary calls per second, of users and between services.", "reqps",
          [(f'topk(10, {rate("escapement_rpc_handled_total", "method")})', "{{method}}")]),
    Panel("Calls by answer, without OK", "NOT_FOUND and ALREADY_EXISTS are usual; UNAVAILABLE, INTERNAL and DEADLINE_EXCEEDED are not.",
          "reqps", [(rate("escapement_rpc_handled_total", "code", '@,code!="OK"'), "{{code}}")]),
    Panel("Calls that failed, last hour", "Share of the calls of each method that failed by no fault of the caller, the ten worst. The objective "
          "allows 0.1 %.", "percentunit", [("topk(10, job_method:escapement_api_calls_failed:ratio_rate1h{@job})", "{{method}}")],
          runbook="EscapementApiBurns"),
    Panel("Time to answer", "99th percentile for each method, the ten slowest.", "s",
          [("topk(10, histogram_quantile(0.99, sum by (method, le) (rate(escapement_rpc_handling_seconds_bucket{@}[$__rate_interval]))) >= 0)",
            "{{method}}")], log=True),
])

OVERVIEW = Dashboard("overview", "Escapement / Overview", "Is it on time, is everything delivered, are all processes there?",
                     [ON_TIME, DELIVERED, PROCESSES, CALLS])
