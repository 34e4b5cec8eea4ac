#include "services/master/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>
#include <utility>

namespace escapement::master {
namespace {

prometheus::Counter& Counter(prometheus::Registry& registry, const std::string& name, const std::string& help) {
  return prometheus::BuildCounter().Name("escapement_master_" + name).Help(help).Register(registry).Add({});
}

}  // namespace

Metrics::Metrics(std::shared_ptr<prometheus::Registry> registry)
    : ingest_batches(Counter(*registry, "ingest_batches_total", "Ingest batches made durable")),
      ingest_batches_refused(Counter(*registry, "ingest_batches_refused_total", "Ingest batches refused")),
      events_created(Counter(*registry, "events_created_total", "One-off events made durable")),
      events_existing(Counter(*registry, "events_existing_total", "Events whose client-chosen id existed already")),
      events_cancelled(Counter(*registry, "events_cancelled_total", "One-off events cancelled")),
      schedule_changes(Counter(*registry, "schedule_changes_total", "Changes of schedules made durable")),
      schedule_change_conflicts(
          Counter(*registry, "schedule_change_conflicts_total", "Tries of changes that lost a race")),
      occurrences_emitted(
          Counter(*registry, "occurrences_emitted_total", "Occurrences emitted by changes of schedules")),
      registry_(std::move(registry)) {}

}  // namespace escapement::master
