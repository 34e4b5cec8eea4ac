#include "services/token_manager/metrics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace escapement::token_manager {
namespace {

constexpr absl::string_view kPrefix = "escapement_token_manager_";

void AppendFamily(std::string* out, absl::string_view name, absl::string_view type,
                  absl::string_view help, uint64_t value) {
  absl::StrAppend(out, "# HELP ", kPrefix, name, " ", help, "\n# TYPE ", kPrefix, name, " ", type,
                  "\n", kPrefix, name, " ", value, "\n");
}

void AppendWait(std::string* out, const TokenManagerStats& stats) {
  constexpr absl::string_view kName = "escapement_token_manager_wait_seconds";
  absl::StrAppend(out, "# HELP ", kName,
                  " How long events had been due when they were granted.\n# TYPE ", kName,
                  " histogram\n");
  uint64_t cumulative = 0;
  for (size_t i = 0; i < TokenManagerStats::kWaitBounds.size(); ++i) {
    cumulative += stats.wait[i].load(std::memory_order_relaxed);
    absl::StrAppend(out, kName, "_bucket{le=\"", TokenManagerStats::kWaitBounds[i], "\"} ",
                    cumulative, "\n");
  }
  cumulative += stats.wait.back().load(std::memory_order_relaxed);
  absl::StrAppend(out, kName, "_bucket{le=\"+Inf\"} ", cumulative, "\n", kName, "_count ",
                  cumulative, "\n", kName, "_sum ",
                  stats.wait_seconds_sum.load(std::memory_order_relaxed), "\n");
}

}  // namespace

std::string FormatTokenManagerMetrics(const TokenManagerStats& stats) {
  std::string text;
  const auto counter = [&](absl::string_view name, absl::string_view help,
                           const TokenManagerStats::Count& count) {
    AppendFamily(&text, name, "counter", help, count.load(std::memory_order_relaxed));
  };
  const auto gauge = [&](absl::string_view name, absl::string_view help,
                         const TokenManagerStats::Count& count) {
    AppendFamily(&text, name, "gauge", help, count.load(std::memory_order_relaxed));
  };
  counter("granted_total", "Events granted a token.", stats.granted);
  counter("released_total", "Events whose token was taken back, however.", stats.released);
  counter("delivered_total", "Events reported as accepted.", stats.delivered);
  counter("completions_total", "Completions of consumers that took effect.", stats.completions);
  counter("completions_void_total", "Completions that named a token not held any more.",
          stats.completions_void);
  counter("succeeded_total", "Events whose success is durable.", stats.succeeded);
  counter("failed_total", "Events that became dead letters.", stats.failed);
  counter("retries_total", "Attempts that are made again.", stats.retries);
  counter("returned_total", "Events given back unattempted.", stats.returned);
  counter("resent_total", "Events claimed again for a handler that was gone.", stats.resent);
  counter("expired_total", "Hold times that ran out.", stats.expired);
  counter("undelivered_total", "Events taken back because nothing was ever said of them.",
          stats.undelivered);
  counter("dropped_total", "Events ended by the end of their window.", stats.dropped);
  counter("carried_over_rows_total", "Rows carried over to the next window.", stats.carried_over);
  counter("skipped_total", "Events that ended as skipped or cancelled.", stats.skipped);
  counter("parked_rows_total", "Rows parked because their schedule is paused.", stats.parked);
  counter("moved_rows_total", "Rows moved to where they belong now.", stats.moved);
  counter("commits_total", "Rounds committed.", stats.commits);
  counter("grants_refused_total", "Grants refused because a state or policy had changed.",
          stats.grants_refused);
  counter("broken_rows_total", "Rows that cannot be read and stay where they are.",
          stats.broken_rows);
  counter("rows_loaded_total", "Rows of waiting events read.", stats.rows_loaded);
  gauge("shards_held", "Policy shards held by lease.", stats.shards_held);
  gauge("policies_active", "Policies with something waiting or held.", stats.policies_active);
  gauge("rows_in_memory", "Rows of waiting events held in memory.", stats.rows_in_memory);
  gauge("tokens_held", "Tokens out now, of the shards owned.", stats.held);
  gauge("completions_waiting", "Completions that wait for the next round.",
        stats.completions_waiting);
  gauge("undelivered", "Events granted and not known to be delivered.", stats.undelivered_now);
  AppendWait(&text, stats);
  return text;
}

}  // namespace escapement::token_manager
