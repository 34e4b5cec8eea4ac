// Platforms with a planted fault, each of which a checker must catch. They wrap a service's way to
// the store, or a handler's transport; the services are unchanged.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_MUTANTS_H_
#define TESTS_SIMULATION_MUTANTS_H_

#include <functional>
#include <memory>

#include "common/kv/kv_store.h"
#include "common/sim/sim_process.h"
#include "services/handler/delivery_transport.h"

namespace escapement::simulation {

using StoreDecorator = std::function<std::unique_ptr<kv::KvStore>(kv::KvStore&, sim::SimProcess&)>;
using TransportDecorator = std::function<std::unique_ptr<handler::DeliveryTransport>(
    std::unique_ptr<handler::DeliveryTransport>, sim::SimProcess&)>;

// Every `nth` commit of an emitter that adds rows to `events` is acknowledged without the first of
// them.
StoreDecorator LosesAcknowledgedRow(int nth);

// Handlers are told a store time that is `ahead` of the true one.
StoreDecorator ClockOfHandlersRunsAhead(absl::Duration ahead);

// Commits of handlers apply whatever their fence says, and whatever their claims are conditional
// on.
StoreDecorator HandlersWriteUnfenced();

// Token managers are told limits that are higher by one, and what they grant is not conditional on
// the policy.
StoreDecorator TokenManagersGrantOneMore();

// Every `nth` commit of a token manager that puts an outcome is acknowledged without the first of
// them.
StoreDecorator TokenManagersLoseOutcome(int nth);

// Every commit of a token manager takes `delay` longer.
StoreDecorator TokenManagersAreSlow(absl::Duration delay);

// Every `nth` report of handlers that says "delivered" says "returned" instead.
StoreDecorator HandlersReportReturned(int nth);

// The children of intervals stay where they are when their occurrences are emitted.
StoreDecorator EmittersLeaveIntervals();

// Every `nth` occurrence that emitters skip (misfire) leaves no record.
StoreDecorator EmittersForgetSkipped(int nth);

// Emitters launch runs without the mark that they are active.
StoreDecorator EmittersForgetActiveRuns();

// Summaries that emitters write count one occurrence too few.
StoreDecorator EmittersMiscountSummaries();

// Every `nth` attempt goes out twice.
TransportDecorator SendsTwice(int nth);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_MUTANTS_H_
