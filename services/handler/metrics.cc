#include "services/handler/metrics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace escapement::handler {
namespace {

void AppendFamily(std::string* out, absl::string_view name, absl::string_view type,
                  absl::string_view help, uint64_t value) {
  absl::StrAppend(out, "# HELP escapement_handler_", name, " ", help,
                  "\n# TYPE escapement_handler_", name, " ", type, "\nescapement_handler_", name,
                  " ", value, "\n");
}

void AppendLateness(std::string* out, const HandlerStats& stats) {
  constexpr absl::string_view kName = "escapement_handler_lateness_seconds";
  absl::StrAppend(out, "# HELP ", kName,
                  " How late first attempts were handed to the transport.\n# TYPE ", kName,
                  " histogram\n");
  uint64_t cumulative = 0;
  for (size_t i = 0; i < HandlerStats::kLatenessBounds.size(); ++i) {
    cumulative += stats.lateness[i].load(std::memory_order_relaxed);
    absl::StrAppend(out, kName, "_bucket{le=\"", HandlerStats::kLatenessBounds[i], "\"} ",
                    cumulative, "\n");
  }
  cumulative += stats.lateness.back().load(std::memory_order_relaxed);
  absl::StrAppend(out, kName, "_bucket{le=\"+Inf\"} ", cumulative, "\n", kName, "_count ",
                  cumulative, "\n", kName, "_sum ",
                  stats.lateness_seconds_sum.load(std::memory_order_relaxed), "\n");
}

}  // namespace

std::string FormatHandlerMetrics(const HandlerStats& stats) {
  std::string text;
  const auto counter = [&](absl::string_view name, absl::string_view help,
                           const HandlerStats::Count& count) {
    AppendFamily(&text, name, "counter", help, count.load(std::memory_order_relaxed));
  };
  const auto gauge = [&](absl::string_view name, absl::string_view help,
                         const HandlerStats::Count& count) {
    AppendFamily(&text, name, "gauge", help, count.load(std::memory_order_relaxed));
  };
  counter("deliveries_total", "Attempts handed to the transport.", stats.deliveries);
  counter("accepted_total", "Attempts that the consumer accepted.", stats.accepted);
  counter("succeeded_total", "Events whose success is durable.", stats.succeeded);
  counter("retries_total", "Attempts that are to be followed by another one.", stats.retries);
  counter("dead_letters_total", "Events that ended as failed.", stats.dead_letters);
  counter("skipped_total", "Events that ended as skipped or cancelled.", stats.skipped);
  counter("parked_total", "Events parked because their schedule is paused.", stats.parked);
  counter("claims_total", "Claims committed.", stats.claims);
  counter("claims_failed_total", "Claims whose conditions did not hold.", stats.claims_failed);
  counter("rows_loaded_total", "Queue rows read.", stats.rows_loaded);
  counter("takeovers_total", "Events sent again for a former owner.", stats.takeovers);
  counter("broken_rows_total", "Queue rows that cannot be read and stay where they are.",
          stats.broken_rows);
  counter("refused_ends_total", "Commits of ends that the store refused for good.",
          stats.refused_ends);
  gauge("rows_in_memory", "Queue rows held in memory.", stats.rows_in_memory);
  gauge("events_out", "Events claimed and not answered.", stats.events_out);
  gauge("shards_held", "Queue shards held by lease.", stats.shards_held);
  AppendLateness(&text, stats);
  return text;
}

}  // namespace escapement::handler
