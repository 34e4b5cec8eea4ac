"""The store: speed, room, replicas, clock."""
from panels.panel import Dashboard, Panel, Row, quantiles, rate

FAST = Row("Is it fast?", [
    Panel("Commit time", "By process, from the request to its answer, when it is durable. Healthy: p99 below 50 ms.", "s",
          quantiles("escapement_store_commit_seconds", "instance, pod"), log=True, runbook="EscapementStoreSlow"),
    Panel("Commit time, all", "How many commits took so long.", "s",
          [("sum by (le) (increase(escapement_store_commit_seconds_bucket{@}[$__rate_interval]))", "{{le}}")], "heatmap"),
    Panel("Writes slowed down", "1 while RocksDB stops or slows writes: compactions do not keep up with the disk.", "short",
          [("max by (instance, pod) (escapement_store_write_stall{@})", "{{pod}} {{instance}}")], top=1),
    Panel("Commits and syncs", "Per second. Fewer syncs than commits is good: commits that come together share one.", "reqps",
          [(rate("escapement_store_commits_total"), "commits"), (rate("escapement_store_syncs_total"), "syncs")]),
    Panel("Syncs by process", "A disk that takes long for each sync allows few: below 1 / (time of a sync).", "reqps",
          [(rate("escapement_store_syncs_total", "instance, pod"), "{{pod}} {{instance}}")]),
    Panel("Append time of the shared log", "Replicated store: until a batch is durable in PostgreSQL.", "s",
          quantiles("escapement_store_append_seconds"), log=True),
])

ROOM = Row("Is there room?", [
    Panel("Disk free", "Share of the disk of the data folder. Below free_mib_min (256 MiB) commits are refused.", "percentunit",
          [("min by (instance, pod) (escapement_store_disk_free_bytes{@} / escapement_store_disk_size_bytes{@})", "{{pod}} {{instance}}")], width=6, top=1,
          runbook="EscapementDiskFull"),
    Panel("Commits accepted", "0: the disk is too full.", "short", [("min by (instance, pod) (escapement_store_accepting{@})", "{{pod}} {{instance}}")],
          width=6, top=1),
    Panel("Size of the data", "Live bytes on disk.", "bytes", [("max by (instance, pod) (escapement_store_live_bytes{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Rows by column family", "RocksDB's estimate. events and waiting: what is pending; done: what has ended within the retention.", "short",
          [("max by (cell, column_family) (escapement_store_rows{@})", "{{column_family}} {{cell}}")], width=6, log=True),
])

REPLICAS = Row("Do the replicas agree?", [
    Panel("Leader", "1 at the replica that leads. In each cell exactly one should.", "short",
          [("max by (instance, pod) (escapement_store_leads{@})", "{{pod}} {{instance}}")], width=6, top=1, runbook="EscapementLeaderUnsteady"),
    Panel("Takeovers", "The term of the leader grows by one with each takeover.", "short",
          [("max by (instance, pod) (escapement_store_leader_epoch{@})", "{{pod}} {{instance}}")], width=6),
    Panel("Safety of the log", "What PostgreSQL's settings let it lose. 3: nothing by one failure; 2: one failure can lose commits or stop them; "
          "1: a crash can.", "short", [("min by (instance, pod) (escapement_store_log_safety{@} > 0)", "{{pod}} {{instance}}")], width=12, top=3,
          runbook="EscapementLogUnsafe"),
    Panel("Replicas that refuse", "1: the log lacks acknowledged commits that this replica has, or is another log.", "short",
          [("max by (instance, pod) (escapement_store_refuses{@})", "{{pod}} {{instance}}")], width=12, top=1, runbook="EscapementLogUnsafe"),
    Panel("Lag of followers", "How long each replica has had fewer rows than the log. Healthy: below a second.", "s",
          [("max by (instance, pod) (escapement_store_replica_lag_seconds{@})", "{{pod}} {{instance}}")], width=6, runbook="EscapementFollowerLags"),
    Panel("Age of the newest snapshot", "Known to the leader. Healthy: below a day.", "s",
          [("max by (instance, pod) (escapement_store_snapshot_age_seconds{@})", "{{pod}} {{instance}}")], width=6, runbook="EscapementSnapshotOld"),
    Panel("Rows of the log", "The last row that each replica sees.", "short",
          [("max by (instance, pod) (escapement_store_log_seq{@})", "{{pod}} {{instance}}")], width=12),
    Panel("Rows since the last snapshot", "A new replica reads them one by one.", "short",
          [("max by (instance, pod) (escapement_store_log_seq{@} - escapement_store_snapshot_seq{@})", "{{pod}} {{instance}}")], width=12),
])

CLOCK = Row("Is the clock right?", [
    Panel("Wall clock less store time", "Healthy: below a tenth of a second.", "s",
          [("max by (instance, pod) (escapement_store_clock_disagreement_seconds{@})", "{{pod}} {{instance}}")]),
    Panel("Emission held for", "How long emission has waited until the clock is confirmed (`escctl store clock`).", "s",
          [("max by (instance, pod) (escapement_store_clock_hold_seconds{@})", "{{pod}} {{instance}}")]),
    Panel("Store time less Prometheus' time", "Store time as scraped, against the clock of Prometheus: some seconds because of the scrape "
          "interval.", "s", [("max by (instance, pod) (escapement_store_time_seconds{@} - timestamp(escapement_store_time_seconds{@}))", "{{pod}} {{instance}}")]),
])

CLIENTS = Row("Who uses it?", [
    Panel("Sessions lost by instance", "Sessions that the store had forgotten, since the start of each process.", "short",
          [("sum by (program, instance, pod) (escapement_store_sessions_lost_total{@})", "{{program}} {{pod}} {{instance}}")], width=12),
    Panel("Streams open", "Calls with streams that are under way at each process.", "short",
          [("topk(10, sum by (method) (escapement_rpc_streams_open{@}))", "{{method}}")], width=12),
])

STORE = Dashboard("store", "Escapement / Store", "Is the store fast, is there room, do the replicas agree, is the clock right?",
                  [FAST, ROOM, REPLICAS, CLOCK, CLIENTS])
