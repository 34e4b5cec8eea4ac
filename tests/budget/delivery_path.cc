#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/testing/handler_world.h"
#include "tests/budget/mark.h"
#include "tests/budget/paths.h"
#include "tests/budget/rocks_rig.h"

namespace escapement::budget {
namespace {

using handler::HandlerWorld;

class AcceptingTransport : public handler::DeliveryTransport {
 public:
  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (const handler::DeliveryAttempt& attempt : attempts) {
      sink->OnResult(attempt.tag, {.status = handler::DeliveryStatus::kAccepted, .message = ""});
    }
  }
};

// Adds a schedule with an occurrence that is due.
void AddOccurrence(uint64_t number, absl::Time due, kv::Group* group) {
  const storage::v1::DefinitionRecord definition = AddSchedule(number, "0 3 * * *", group);
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_version(1);
  event.set_count(1);
  event.set_run_count(1);
  event.set_nominal_time_micros(ToMicros(due));
  event.set_launch_time_micros(ToMicros(due));
  group->mutations.push_back(
      kv::Put(kv::ColumnFamily::kEvents,
              EncodeEventKey({.shard = static_cast<uint16_t>(number % HandlerWorld::kShards),
                              .lane = 5,
                              .due_time = due,
                              .uid = Uid::FromBytes(definition.uid()),
                              .occurrence = "20260301T030000-0-UTC",
                              .first = 0}),
              event.SerializeAsString()));
}

void Commit(HandlerWorld& world, kv::Group group) {
  if (!world.Commit(std::move(group))) std::abort();
}

// Starts a handler, which loads the stored rows, and waits until the last end is durable.
void Deliver(HandlerWorld& world, uint64_t events) {
  AcceptingTransport transport;
  handler::HandlerService service({}, world.store, world.runtime, transport);
  escapement_budget_mark();
  service.Start();
  const bool done = world.runtime.RunUntil(
      [&] { return service.metrics().succeeded.Value() == events; }, absl::Seconds(60));
  escapement_budget_mark();
  if (!done) std::abort();
}

}  // namespace

void RunDeliveryPath(uint64_t events) {
  HandlerWorld world;
  for (std::vector<kv::Group>& batch : OneOffGroups(events, world.now() - absl::Seconds(1),
                                                    HandlerWorld::kShards, "consumer", false)) {
    kv::Group all;
    for (kv::Group& group : batch) {
      for (kv::Mutation& mutation : group.mutations) all.mutations.push_back(std::move(mutation));
    }
    Commit(world, std::move(all));
  }
  Deliver(world, events);
}

void RunOccurrencesPath(uint64_t events) {
  HandlerWorld world;
  kv::Group group;
  for (uint64_t i = 0; i < events; ++i) {
    AddOccurrence(i, world.now() - absl::Seconds(1), &group);
    if (i % kBatchEvents == 0 || i + 1 == events) Commit(world, std::exchange(group, {}));
  }
  Deliver(world, events);
}

}  // namespace escapement::budget
