#include "services/handler/base/metrics.h"

namespace escapement::handler {
namespace {

// Around the milliseconds that a healthy platform needs, and around the promise of a minute.
const std::vector<double>& LatenessBuckets() {
  static const auto* const buckets = new std::vector<double>{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300};
  return *buckets;
}

TransportMetrics MetricsOf(Metrics& metrics, const std::string& transport) {
  const auto in_state = [&](const char* state) -> Gauge& {
    return *metrics.GetGauge("escapement_handler_targets",
                             "Endpoints used in the last minutes, by state of their circuit "
                             "breaker.",
                             {{"transport", transport}, {"state", state}});
  };
  return {
      .open = in_state("open"),
      .half_open = in_state("half_open"),
      .closed = in_state("closed"),
      .openings = *metrics.GetCounter("escapement_handler_breaker_openings_total",
                                      "Openings of circuit breakers.", {{"transport", transport}}),
      .failures = *metrics.GetCounter("escapement_handler_attempts_failed_total",
                                      "Attempts that were sent and not accepted.",
                                      {{"transport", transport}}),
      .attempt_seconds = *metrics.GetHistogram(
          "escapement_handler_attempt_seconds",
          "How long attempts took, from the transport to the result.",
          {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
          {{"transport", transport}})};
}

}  // namespace

HandlerMetrics::HandlerMetrics(Metrics& metrics)
    : deliveries(*metrics.GetCounter(
          "escapement_handler_deliveries_total",
          "Attempts that have ended and whose event was sent: not those without "
          "a connection.")),
      accepted(*metrics.GetCounter("escapement_handler_accepted_total",
                                   "Attempts that the consumer accepted.")),
      succeeded(*metrics.GetCounter("escapement_handler_succeeded_total",
                                    "Events whose success is durable.")),
      retries(*metrics.GetCounter("escapement_handler_retries_total",
                                  "Attempts that are to be followed by another one.")),
      dead_letters(*metrics.GetCounter("escapement_handler_dead_letters_total",
                                       "Events that ended as failed.")),
      skipped(*metrics.GetCounter("escapement_handler_skipped_total",
                                  "Events that ended as skipped or cancelled.")),
      parked(*metrics.GetCounter("escapement_handler_parked_total",
                                 "Events parked because their schedule is paused.")),
      claims(*metrics.GetCounter("escapement_handler_claims_total", "Claims committed.")),
      claims_failed(*metrics.GetCounter("escapement_handler_claims_failed_total",
                                        "Claims whose conditions did not hold.")),
      rows_loaded(*metrics.GetCounter("escapement_handler_rows_loaded_total", "Queue rows read.")),
      takeovers(*metrics.GetCounter("escapement_handler_takeovers_total",
                                    "Events sent again for a former owner.")),
      suspects(*metrics.GetCounter(
          "escapement_handler_suspects_total",
          "Events that had no result when two handlers in a row were lost, and are sent alone.")),
      quarantined(*metrics.GetCounter(
          "escapement_handler_quarantined_total",
          "Events that became dead letters because three handlers were lost with them.")),
      broken_rows(*metrics.GetCounter("escapement_handler_broken_rows_total",
                                      "Queue rows that cannot be read and stay where they are.")),
      refused_ends(*metrics.GetCounter("escapement_handler_refused_ends_total",
                                       "Commits of ends that the store refused for good.")),
      rows_in_memory(
          *metrics.GetGauge("escapement_handler_rows_in_memory", "Queue rows held in memory.")),
      events_out(
          *metrics.GetGauge("escapement_handler_events_out", "Events claimed and not answered.")),
      shards_held(
          *metrics.GetGauge("escapement_handler_shards_held", "Queue shards held by lease.")),
      lateness_seconds(*metrics.GetHistogram(
          "escapement_handler_lateness_seconds",
          "How late first attempts were handed to the transport.", LatenessBuckets())),
      oldest_overdue_seconds(*metrics.GetGauge(
          "escapement_handler_oldest_overdue_seconds",
          "How late the oldest row is that is due and not yet claimed; 0 if there is none.")),
      heartbeats(*metrics.GetCounter("escapement_handler_heartbeats_total",
                                     "Events of the platform's own heartbeat schedule.")),
      heartbeat_lateness_seconds(*metrics.GetHistogram(
          "escapement_handler_heartbeat_lateness_seconds",
          "How late the events of the heartbeat schedule were accepted.", LatenessBuckets())),
      held_events_failed(*metrics.GetCounter(
          "escapement_handler_held_events_failed_total",
          "Events that grew older than their max_age while their target was down or asked for "
          "pauses.")),
      target_pauses(*metrics.GetCounter(
          "escapement_handler_target_pauses_total",
          "Pauses that began because an endpoint answered 429, or 503 with Retry-After.")) {
  for (const char* transport : {"http", "grpc", "sqs", "kafka", "slack", "email", "ping", "other"})
    by_transport.emplace(transport, MetricsOf(metrics, transport));
}

TransportMetrics& HandlerMetrics::Of(absl::string_view target_key) {
  const auto found = by_transport.find(target_key.substr(0, target_key.find(':')));
  return found != by_transport.end() ? found->second : by_transport.find("other")->second;
}

}  // namespace escapement::handler
