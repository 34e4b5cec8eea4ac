// ExplainWorld: a master, an emitter, a handler and a token manager over one store, in virtual
// time, and a consumer that the test directs. For tests that shut and open what may hold an event
// up.

#ifndef TESTS_EXPLAIN_EXPLAIN_WORLD_H_
#define TESTS_EXPLAIN_EXPLAIN_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/rpc/done.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "escapement/v1/explanation.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/master/calendars/calendar_service.h"
#include "services/master/explain/explain_service.h"
#include "services/master/service/master_service.h"
#include "tests/simulation/world/hosts.h"

namespace escapement::explain {

class ExplainWorld {
 public:
  using Strings = std::vector<std::string>;

  // An attempt that has arrived at the consumer.
  struct Arrival {
    std::string event_id;
    std::string occurrence;
    std::string uri;
    uint32_t attempt = 0;
    std::string token;
    absl::Time time;
  };

  ExplainWorld();
  ~ExplainWorld();

  // The consumer's answer; nullopt: it hangs until AnswerHanging. By default it accepts.
  std::function<std::optional<handler::DeliveryResult>(const handler::DeliveryAttempt&)> answer;
  std::vector<Arrival> arrivals;
  // Accepts all attempts that hang.
  void AnswerHanging();

  template <typename Api, typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Api::*method)(Request, Done<Response>), Request request) {
    std::optional<absl::StatusOr<Response>> got;
    (ApiOf(static_cast<Api*>(nullptr)).*method)(
        std::move(request), [&](absl::StatusOr<Response> response) { got = std::move(response); });
    if (!world.RunUntil([&] { return got.has_value(); }, absl::Minutes(1)))
      return absl::DeadlineExceededError("no answer");
    return *std::move(got);
  }

  v1::EventExplanation Explain(const std::string& name);
  v1::ScheduleExplanation ExplainSchedule(const std::string& name);
  // One text for each gate: its kind and, for NO_OWNER, what has none ("NO_OWNER queue shard").
  static Strings Names(const google::protobuf::RepeatedPtrField<v1::Gate>& gates);

  // Gives the token back as completed, at the door of the token manager or of the master.
  void Complete(const std::string& token);
  // Each group must apply.
  void Commit(kv::Group group);
  const std::map<std::string, std::string> Rows(kv::ColumnFamily cf) const;

  // True if every lease of the kind has a living owner; AnyOwned: if one has.
  bool AllOwned(absl::string_view kind) const;
  bool AnyOwned(absl::string_view kind) const;
  // Kills the service and waits until its leases have ended; starts it and waits until it has them.
  void KillOwner(simulation::Host& host, absl::string_view kind);
  void StartOwner(simulation::Host& host, absl::string_view kind);

  absl::Time Now() const { return world.Now(); }
  bool RunUntil(const std::function<bool()>& done, absl::Duration limit) {
    return world.RunUntil(done, limit);
  }

  sim::SimWorld world;
  sim::SimNetwork network;
  std::unique_ptr<simulation::StoreHost> store;
  std::unique_ptr<simulation::ServiceHost> master, emitter, handler, tokens;

 private:
  class Transport;
  struct Hanging {
    uint64_t tag = 0;
    std::shared_ptr<handler::DeliverySink> sink;
    std::weak_ptr<bool> alive;  // expires with the handler that sent it
  };

  master::ScheduleApi& ApiOf(master::ScheduleApi*) { return service_->schedules(); }
  master::EventApi& ApiOf(master::EventApi*) { return service_->events(); }
  master::RunApi& ApiOf(master::RunApi*) { return service_->runs(); }
  master::PolicyApi& ApiOf(master::PolicyApi*) { return service_->policies(); }
  master::CalendarService& ApiOf(master::CalendarService*) { return service_->calendars(); }
  master::ExplainService& ApiOf(master::ExplainService*) { return service_->explanations(); }

  master::MasterService* service_ = nullptr;
  simulation::TokenEndpoint master_door_, tokens_door_;
  std::vector<Hanging> hanging_;
  std::unique_ptr<sim::SimProcess> process_;  // the test's own
  std::unique_ptr<kv::KvStore> connection_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
};

}  // namespace escapement::explain

#endif  // TESTS_EXPLAIN_EXPLAIN_WORLD_H_
