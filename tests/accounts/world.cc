#include "tests/accounts/world.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace escapement::accounts {
namespace {

using simulation::ServiceHost;

constexpr absl::Duration kWay = absl::Milliseconds(2);  // to the consumer and back, each
constexpr uint32_t kFlakyFails = 10;                    // so many of 100 attempts fail

}  // namespace

std::string IdOf(uint32_t schedule) { return absl::StrFormat("s%07d", schedule); }

std::optional<uint32_t> NumberOf(absl::string_view id) {
  uint32_t number = 0;
  if (!absl::ConsumePrefix(&id, "s") || !absl::SimpleAtoi(id, &number)) return std::nullopt;
  return number;
}

class AccountsWorld::Transport final : public handler::DeliveryTransport {
 public:
  Transport(AccountsWorld& world, const sim::SimProcess& process)
      : world_(world), handler_(process.state()), line_(world.world.NewLine()) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (handler::DeliveryAttempt& attempt : attempts) {
      // It arrives even if its handler has died since.
      world_.world.After(kWay, "delivery",
                         [world = &world_, handler = handler_, line = line_,
                          alive = std::weak_ptr<bool>(alive_), sink, attempt = std::move(attempt)] {
                           world->Arrive(attempt, sink, handler, line, alive);
                         });
    }
  }

 private:
  AccountsWorld& world_;
  const std::shared_ptr<sim::ProcessState> handler_;
  const uint64_t line_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

void AccountsWorld::Arrive(const handler::DeliveryAttempt& attempt,
                           std::shared_ptr<handler::DeliverySink> sink,
                           std::shared_ptr<sim::ProcessState> handler, uint64_t line,
                           std::weak_ptr<bool> transport) {
  auto [result, work] = Receive(attempt);
  world.At(world.Elapsed() + work + kWay, std::move(handler), line, "answer",
           [sink = std::move(sink), transport = std::move(transport), tag = attempt.tag,
            result = std::move(result)]() mutable {
             if (!transport.expired()) sink->OnResult(tag, std::move(result));
           });
}

AccountsWorld::AccountsWorld(uint64_t seed, absl::Time start,
                             std::function<const Traits&(uint32_t)> traits_of,
                             std::function<bool()> is_down)
    : world(seed, {.start_time = start}),
      network(world, "network"),
      traits_of_(std::move(traits_of)),
      is_down_(std::move(is_down)),
      random_(seed, "user") {
  kv::MemKvStore::Options options;
  options.layout = {.partitions = 4, .queue_shards = 4, .policy_shards = 2};
  store_ = std::make_unique<simulation::StoreHost>(world, "store", options, nullptr);
  store_->Start();
  for (int i = 0; i < kHosts; ++i) {
    const size_t at = static_cast<size_t>(i);
    const auto make = [&](Service service, absl::string_view name, auto made) {
      ServiceHost::Options host;
      host.name = absl::StrCat(name, i);
      host.make = std::move(made);
      if (service == kMaster) {
        host.on_down = [this, at] { masters_[at].service = nullptr; };
        masters_[at].process = host.name;
      }
      auto& place = hosts_[static_cast<size_t>(service)][at];
      place = std::make_unique<ServiceHost>(network, *store_, std::move(host));
      place->Start();
    };
    make(kMaster, "master",
         [this, at](sim::SimProcess& process, kv::KvStore& kv,
                    const simulation::ServiceIdentity& self) {
           auto service = simulation::MakeMaster(process, kv, self, &apis_[at], &doors_[2 * at]);
           masters_[at].service = &apis_[at];
           return service;
         });
    make(kEmitter, "emitter", simulation::MakeEmitter);
    make(
        kHandler, "handler",
        [this](sim::SimProcess& process, kv::KvStore& kv, const simulation::ServiceIdentity& self) {
          return simulation::MakeHandler(process, kv, self,
                                         std::make_unique<Transport>(*this, process), 0);
        });
    make(kTokenManager, "tokens",
         [this, at](sim::SimProcess& process, kv::KvStore& kv,
                    const simulation::ServiceIdentity& self) {
           return simulation::MakeTokenManager(process, kv, self, &doors_[2 * at + 1]);
         });
  }
  process_ = std::make_unique<sim::SimProcess>(world, "user");
  connection_ = store_->Connect(network, *process_);
  executor_ = process_->NewExecutor("user");
  kv::KvClient::Options client;
  client.name = "user";
  client.session_executor = executor_;
  client.on_session_lost = [] {};
  client_ = std::make_unique<kv::KvClient>(*connection_, *process_, std::move(client));
}

AccountsWorld::~AccountsWorld() {
  client_.reset();
  for (auto& of_service : hosts_) {
    for (auto& host : of_service) host->Kill();
  }
  connection_.reset();
  process_.reset();
}

bool AccountsWorld::DeleteRow(kv::ColumnFamily cf, const std::string& key) {
  if (!Rows(cf).contains(key)) return false;
  auto applied = std::make_shared<std::optional<bool>>();
  kv::Commit commit;
  commit.groups.emplace_back().mutations.push_back(
      {.cf = cf, .kind = kv::Mutation::Kind::kDelete, .key = key});
  client_->CommitAsync(std::move(commit), executor_,
                       [applied](const absl::StatusOr<kv::CommitResult>& result) {
                         *applied = result.ok() && result->verdicts[0].applied;
                       });
  world.RunUntil([&] { return applied->has_value(); }, absl::Minutes(1));
  return applied->value_or(false);
}

const Seen* AccountsWorld::SeenOf(uint32_t schedule, absl::Time nominal) const {
  const auto seen = seen_.find({schedule, absl::ToUnixSeconds(nominal)});
  return seen == seen_.end() ? nullptr : &seen->second;
}

std::pair<handler::DeliveryResult, absl::Duration> AccountsWorld::Receive(
    const handler::DeliveryAttempt& attempt) {
  ++attempts_;
  const handler::DeliveryContext& context = *attempt.context;
  handler::DeliveryResult result;
  result.status = handler::DeliveryStatus::kAccepted;
  // If the event holds a token, the answer gives it back.
  result.work = handler::DeliveryWork::kSucceeded;
  absl::Duration work = random_.Between(absl::Milliseconds(1), absl::Milliseconds(100));
  const std::string source = context.Source();
  const std::vector<absl::string_view> parts = absl::StrSplit(source, '/');
  const std::optional<uint32_t> schedule = NumberOf(parts.back());
  if (!schedule.has_value()) return {std::move(result), work};
  const Traits& traits = traits_of_(*schedule);
  switch (traits.target) {
    case Traits::Target::kRefuses:
      result.status = handler::DeliveryStatus::kRejected;
      break;
    case Traits::Target::kFlaky:
      if (random_.Below(100) < kFlakyFails) result.status = handler::DeliveryStatus::kFailed;
      break;
    case Traits::Target::kDown:
      if (is_down_()) result.status = handler::DeliveryStatus::kFailed;
      break;
    case Traits::Target::kSlow:
      work = random_.Between(absl::Seconds(10), absl::Seconds(200));
      break;
    case Traits::Target::kAccepts:
      break;
  }
  const bool accepted = result.status == handler::DeliveryStatus::kAccepted;
  Seen& seen = seen_[{*schedule, absl::ToUnixSeconds(context.nominal_time)}];
  const uint16_t bit = static_cast<uint16_t>(1u << attempt.index);
  if ((seen.arrived & bit) == 0) seen.last_new = Now();
  seen.arrived |= bit;
  seen.first = std::min(seen.first, Now());
  seen.last_answer = std::max(seen.last_answer, Now() + work);
  if (accepted) {
    seen.accepted |= bit;
  } else {
    result.status_code = 500;
    result.message = "no";
    ++seen.refused;
  }
  return {std::move(result), work};
}

}  // namespace escapement::accounts
