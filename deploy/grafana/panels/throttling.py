"""Throttling: policies, their tokens, and the events that wait for one."""
from panels.panel import Dashboard, Panel, Row, quantiles, rate

WAITING = "escapement_token_manager_policy_events_waiting{@}"
HELD = "escapement_token_manager_policy_tokens_held{@}"
LIMIT = "escapement_token_manager_policy_limit{@}"

FULL = Row("Which policies are full, and who waits?", [
    Panel("Policies", "The policies with most waiting events. Full and waiting is usual; full, waiting and nothing released is not.", "short",
          [(f"max by (policy) ({HELD})", ""), (f"max by (policy) ({LIMIT})", ""), (f"max by (policy) ({WAITING})", "")], "table", 12,
          columns={"policy": "Policy", "Value #A": "Tokens held", "Value #B": "Limit", "Value #C": "Events waiting"}),
    Panel("Tokens held, of the limit", "1: the policy is full.", "percentunit",
          [(f"topk(10, max by (policy) ({HELD}) / max by (policy) ({LIMIT} > 0))", "{{policy}}")], width=6, top=1,
          runbook="EscapementPolicyStuck"),
    Panel("Events waiting", "By policy: events without a token, those that are due within seconds included.", "short", [(f"topk(10, max by (policy) ({WAITING}))", "{{policy}}")], width=6),
    Panel("Oldest waiting event", "How long the oldest event has been due without a token.", "s",
          [("max by (instance, pod) (escapement_token_manager_oldest_waiting_seconds{@})", "{{pod}} {{instance}}")]),
    Panel("Time until the grant", "How long events had been due when they got their token.", "s",
          quantiles("escapement_token_manager_wait_seconds"), log=True),
    Panel("Time until the grant, all", "How many events waited so long.", "s",
          [("sum by (le) (increase(escapement_token_manager_wait_seconds_bucket{@}[$__rate_interval]))", "{{le}}")], "heatmap"),
])

BACK = Row("Do tokens come back?", [
    Panel("Granted and released", "Tokens per second. Released stays at 0 while tokens are held: the consumers keep them.", "reqps",
          [(rate("escapement_token_manager_granted_total"), "granted"), (rate("escapement_token_manager_released_total"), "released")]),
    Panel("Newest token of a policy", "How long ago the newest token that is out was given. It grows while a policy is full and gets none back.", "s",
          [("topk(10, max by (policy) (escapement_token_manager_policy_newest_token_seconds{@}))", "{{policy}}")], runbook="EscapementPolicyStuck"),
    Panel("Tokens held", "By the token manager that owns the policy.", "short",
          [("sum by (instance, pod) (escapement_token_manager_tokens_held{@})", "{{pod}} {{instance}}")], stacked=True),
    Panel("Overdue holders", "Tokens whose hold time has ended and that are still out. Healthy: 0.", "short",
          [("sum(escapement_token_manager_holders_overdue{@})", "overdue")], width=6, runbook="EscapementHoldersOverdue"),
    Panel("How tokens come back", "Completions of consumers, hold times that ran out, and events given back without an attempt.", "reqps",
          [(rate("escapement_token_manager_completions_total"), "completed"), (rate("escapement_token_manager_expired_total"), "hold time over"),
           (rate("escapement_token_manager_returned_total"), "not attempted")], width=6),
    Panel("Completions without effect", "They named a token that was not held any more: the work took longer than the hold time, or it was "
          "reported twice.", "reqps", [(rate("escapement_token_manager_completions_void_total"), "void")], width=6),
    Panel("Granted and not known to be delivered", "Grows while handlers or targets do not answer.", "short",
          [("sum(escapement_token_manager_undelivered{@})", "undelivered")], width=6),
])

OWNERS = Row("Who owns the policies?", [
    Panel("Policy shards held", "Together all shards (8 unless the store was made with another number).", "short",
          [("sum by (instance, pod) (escapement_token_manager_shards_held{@})", "{{pod}} {{instance}}")], stacked=True),
    Panel("Active policies", "Policies with something waiting or held.", "short",
          [("sum by (instance, pod) (escapement_token_manager_policies_active{@})", "{{pod}} {{instance}}")]),
    Panel("Waiting rows in memory", "At most 512 for each schedule and priority; the others are read later.", "short",
          [("sum by (instance, pod) (escapement_token_manager_rows_in_memory{@})", "{{pod}} {{instance}}")]),
    Panel("Rounds", "Commits of the token managers, and grants that were refused because a schedule or policy had changed.", "reqps",
          [(rate("escapement_token_manager_commits_total"), "rounds"), (rate("escapement_token_manager_grants_refused_total"), "refused grants")]),
    Panel("Completions that wait", "Completions that wait for the next round. Grows if the store is slow.", "short",
          [("sum by (instance, pod) (escapement_token_manager_completions_waiting{@})", "{{pod}} {{instance}}")]),
    Panel("Events dropped or moved", "By the end of their window, to the next window, or to another policy.", "reqps",
          [(rate("escapement_token_manager_dropped_total"), "dropped"), (rate("escapement_token_manager_carried_over_rows_total"), "carried over"),
           (rate("escapement_token_manager_moved_rows_total"), "moved")]),
    Panel("Runs too slow for their windows", "Active runs that will not end before their window closes, or whose window has closed. Healthy: 0.", "short",
          [("sum(escapement_run_at_risk{@})", "runs")], runbook="EscapementRunAtRisk"),
])

THROTTLING = Dashboard("throttling", "Escapement / Throttling", "Which policies are full, who waits, and do tokens come back?",
                       [FULL, BACK, OWNERS])
