#include "tests/explain/explain_world.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/kv/layout.h"
#include "common/lease/lease_table.h"
#include "common/tokens/token_batch.h"
#include "common/tokens/token_door.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/token_service.pb.h"
#include "gtest/gtest.h"

namespace escapement::explain {

namespace {

constexpr absl::Duration kTravels = absl::Milliseconds(1);
constexpr uint32_t kShards = 2;

struct MasterParts {
  MasterParts(sim::SimProcess& process, kv::KvStore& store, const std::string& instance)
      : service(OptionsOf(instance), store, process), door(DoorOf(instance), store, process) {
    service.Start();
    door.Start();
  }
  static master::MasterOptions OptionsOf(const std::string& instance) {
    master::MasterOptions options;
    options.instance = instance;
    options.fresh_token_key = std::string(kTokenKeyBytes, 'k');
    return options;
  }
  static TokenDoor::Options DoorOf(const std::string& instance) {
    TokenDoor::Options options;
    options.instance = instance + "/door";
    options.fresh_key = [] { return std::string(kTokenKeyBytes, 'k'); };
    return options;
  }

  master::MasterService service;
  TokenDoor door;
};

}  // namespace

class ExplainWorld::Transport final : public handler::DeliveryTransport {
 public:
  explicit Transport(ExplainWorld& world) : world_(world) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (handler::DeliveryAttempt& attempt : attempts) {
      world_.world.After(kTravels, "delivery",
                         [this, weak = std::weak_ptr<bool>(alive_), attempt, sink] {
                           if (weak.expired()) return;
                           Arrive(attempt, sink);
                         });
    }
  }

 private:
  void Arrive(const handler::DeliveryAttempt& attempt,
              const std::shared_ptr<handler::DeliverySink>& sink) {
    const handler::DeliveryContext& context = *attempt.context;
    world_.arrivals.push_back({.event_id = attempt.event_id,
                               .occurrence = context.occurrence,
                               .uri = context.definition->delivery().target().http().uri(),
                               .attempt = attempt.attempt,
                               .token = attempt.token,
                               .time = world_.Now()});
    std::optional<handler::DeliveryResult> result = handler::DeliveryResult();
    result->status = handler::DeliveryStatus::kAccepted;
    if (world_.answer) result = world_.answer(attempt);
    if (result.has_value()) return sink->OnResult(attempt.tag, *std::move(result));
    world_.hanging_.push_back({.tag = attempt.tag, .sink = sink, .alive = alive_});
  }

  ExplainWorld& world_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

ExplainWorld::ExplainWorld() : world(1), network(world, "network") {
  kv::MemKvStore::Options options;
  options.layout = {.partitions = kShards, .queue_shards = kShards, .policy_shards = kShards};
  store = std::make_unique<simulation::StoreHost>(world, "store", options, nullptr);
  store->Start();
  const auto make = [this](const std::string& name, auto service) {
    simulation::ServiceHost::Options host;
    host.name = name;
    host.make = std::move(service);
    return std::make_unique<simulation::ServiceHost>(network, *store, std::move(host));
  };
  master_door_.process = "master";
  tokens_door_.process = "token_manager";
  master = make("master", [this](sim::SimProcess& process, kv::KvStore& kv,
                                 const simulation::ServiceIdentity& self) {
    auto parts = std::make_shared<MasterParts>(process, kv, self.instance);
    service_ = &parts->service;
    master_door_.service = &parts->door;
    return simulation::ServiceHost::Service{parts, nullptr};
  });
  emitter = make("emitter", simulation::MakeEmitter);
  handler = make("handler", [this](sim::SimProcess& process, kv::KvStore& kv,
                                   const simulation::ServiceIdentity& self) {
    return simulation::MakeHandler(process, kv, self, std::make_unique<Transport>(*this), 0);
  });
  tokens = make("token_manager", [this](sim::SimProcess& process, kv::KvStore& kv,
                                        const simulation::ServiceIdentity& self) {
    return simulation::MakeTokenManager(process, kv, self, &tokens_door_);
  });
  master->Start();
  process_ = std::make_unique<sim::SimProcess>(world, "test");
  connection_ = store->Connect(network, *process_);
  executor_ = process_->NewExecutor("test");
  kv::KvClient::Options client;
  client.name = "test";
  client.session_executor = executor_;
  client.on_session_lost = [] {};
  client_ = std::make_unique<kv::KvClient>(*connection_, *process_, std::move(client));
  EXPECT_TRUE(world.RunUntil([this] { return service_->Ready(); }, absl::Minutes(1)));
  StartOwner(*emitter, "partition");
  StartOwner(*handler, "queue_shard");
  StartOwner(*tokens, "policy_shard");
}

ExplainWorld::~ExplainWorld() {
  client_.reset();
  for (simulation::ServiceHost* host : {tokens.get(), handler.get(), emitter.get(), master.get()})
    host->Kill();
  connection_.reset();
  process_.reset();
}

void ExplainWorld::AnswerHanging() {
  for (const Hanging& each : std::exchange(hanging_, {})) {
    if (each.alive.expired()) continue;
    handler::DeliveryResult result;
    result.status = handler::DeliveryStatus::kAccepted;
    each.sink->OnResult(each.tag, std::move(result));
  }
}

v1::EventExplanation ExplainWorld::Explain(const std::string& name) {
  v1::ExplainEventRequest request;
  request.set_name(name);
  const auto answer = Call(&master::ExplainService::ExplainEvent, request);
  EXPECT_TRUE(answer.ok()) << name << ": " << answer.status();
  return answer.ok() ? *answer : v1::EventExplanation();
}

v1::ScheduleExplanation ExplainWorld::ExplainSchedule(const std::string& name) {
  v1::ExplainScheduleRequest request;
  request.set_name(name);
  const auto answer = Call(&master::ExplainService::ExplainSchedule, request);
  EXPECT_TRUE(answer.ok()) << name << ": " << answer.status();
  return answer.ok() ? *answer : v1::ScheduleExplanation();
}

ExplainWorld::Strings ExplainWorld::Names(
    const google::protobuf::RepeatedPtrField<v1::Gate>& gates) {
  Strings names;
  for (const v1::Gate& gate : gates) {
    std::string name = v1::Gate::Kind_Name(gate.kind());
    if (gate.kind() == v1::Gate::NO_OWNER) {
      std::string subject = gate.subject();
      while (!subject.empty() && std::isdigit(static_cast<unsigned char>(subject.back())))
        subject.pop_back();
      absl::StrAppend(&name, " ", absl::StripTrailingAsciiWhitespace(subject));
    }
    names.push_back(std::move(name));
  }
  return names;
}

void ExplainWorld::Complete(const std::string& token) {
  v1::CompleteTokensRequest request;
  request.add_completions()->set_token(token);
  request.mutable_completions(0)->set_outcome(v1::TokenCompletion::SUCCEEDED);
  TokenApi* door = tokens->up() ? tokens_door_.service : master_door_.service;
  std::optional<bool> taken;
  door->CompleteTokens(request,
                       [&](absl::StatusOr<std::unique_ptr<v1::CompleteTokensResponse>> response) {
                         taken = response.ok();
                       });
  EXPECT_TRUE(world.RunUntil([&] { return taken.has_value(); }, absl::Minutes(1)));
  EXPECT_TRUE(taken.value_or(false));
}

void ExplainWorld::Commit(kv::Group group) {
  std::optional<bool> applied;
  kv::Commit commit;
  commit.groups.push_back(std::move(group));
  client_->CommitAsync(std::move(commit), executor_,
                       [&](const absl::StatusOr<kv::CommitResult>& result) {
                         applied = result.ok() && result->verdicts[0].applied;
                       });
  EXPECT_TRUE(world.RunUntil([&] { return applied.has_value(); }, absl::Minutes(1)));
  EXPECT_TRUE(applied.value_or(false));
}

const std::map<std::string, std::string> ExplainWorld::Rows(kv::ColumnFamily cf) const {
  const auto& family = store->disk().families[static_cast<size_t>(cf)];
  return {family.begin(), family.end()};
}

bool ExplainWorld::AllOwned(absl::string_view kind) const {
  const auto rows = Rows(kv::ColumnFamily::kLeases);
  for (uint32_t i = 0; i < kShards; ++i) {
    const auto row = rows.find(lease::LeaseKey(kind, i));
    if (row == rows.end()) return false;
    const auto lease = lease::DecodeLeaseValue(row->second);
    if (!lease.has_value() || lease->owner.empty() || lease->end <= Now()) return false;
  }
  return true;
}

bool ExplainWorld::AnyOwned(absl::string_view kind) const {
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kLeases)) {
    const auto lease = lease::DecodeLeaseValue(value);
    if (lease::LeaseIndexOf(kind, key).has_value() && lease.has_value() && !lease->owner.empty() &&
        lease->end > Now())
      return true;
  }
  return false;
}

void ExplainWorld::KillOwner(simulation::Host& host, absl::string_view kind) {
  host.Kill();
  EXPECT_TRUE(RunUntil([&] { return !AnyOwned(kind); }, absl::Minutes(1))) << kind;
  // The store's time is a moment behind true time.
  world.AdvanceBy(absl::Milliseconds(100));
}

void ExplainWorld::StartOwner(simulation::Host& host, absl::string_view kind) {
  host.Start();
  EXPECT_TRUE(RunUntil([&] { return AllOwned(kind); }, absl::Minutes(1))) << kind;
}

}  // namespace escapement::explain
