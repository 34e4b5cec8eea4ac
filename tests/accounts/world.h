// AccountsWorld: two each of masters, emitters, handlers and token managers over one store, in
// virtual time, and a consumer that behaves as the schedules' traits say. All services can be
// killed, started again and frozen.
//
// Threads: the world's.

#ifndef TESTS_ACCOUNTS_WORLD_H_
#define TESTS_ACCOUNTS_WORLD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/runtime/runtime.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_rpc.h"
#include "common/sim/sim_world.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/accounts/judge.h"
#include "tests/simulation/actors/user_calls.h"
#include "tests/simulation/world/hosts.h"

namespace escapement::accounts {

// Schedules are numbered; their ids sort as their numbers do.
std::string IdOf(uint32_t schedule);
std::optional<uint32_t> NumberOf(absl::string_view id);

class AccountsWorld {
 public:
  enum Service { kMaster, kEmitter, kHandler, kTokenManager, kServices };
  static constexpr int kHosts = 2;  // for each service
  using Endpoint = sim::SimEndpoint<simulation::MasterApis>;
  template <typename T>
  using Invoke =
      std::function<void(simulation::MasterApis&, std::function<void(absl::StatusOr<T>)>)>;

  // `traits_of`: of a schedule; kDown targets fail while `is_down` is true. Both outlive the world.
  AccountsWorld(uint64_t seed, absl::Time start,
                std::function<const Traits&(uint32_t schedule)> traits_of,
                std::function<bool()> is_down);
  ~AccountsWorld();

  // Asks any master, again after `timeout` without an answer, until the answer is known. `done`
  // runs in the world.
  template <typename T>
  void UntilKnown(absl::Duration timeout, Invoke<T> invoke,
                  std::function<void(absl::StatusOr<T>)> done) {
    const Endpoint& master = masters_[random_.Below(kHosts)];
    sim::SimCall<T, simulation::MasterApis>(
        network, process_->state(), master, timeout, invoke,
        [this, timeout, invoke, done](absl::StatusOr<T> answer) {
          if (answer.ok() || !Unknown(answer.status())) return done(std::move(answer));
          world.After(absl::Milliseconds(200), "again",
                      [this, timeout, invoke, done] { UntilKnown<T>(timeout, invoke, done); });
        });
  }
  // Waits for it in virtual time.
  template <typename T>
  absl::StatusOr<T> Call(absl::Duration timeout, Invoke<T> invoke) {
    auto got = std::make_shared<std::optional<absl::StatusOr<T>>>();
    UntilKnown<T>(timeout, std::move(invoke),
                  [got](absl::StatusOr<T> answer) { *got = std::move(answer); });
    if (!world.RunUntil([&] { return got->has_value(); }, absl::Hours(1)))
      return absl::DeadlineExceededError("no answer");
    return **std::move(got);
  }

  // Behind the services' backs. False if the row was not there.
  bool DeleteRow(kv::ColumnFamily cf, const std::string& key);
  const kv::MemDisk::Family& Rows(kv::ColumnFamily cf) const {
    return store_->disk().families[static_cast<size_t>(cf)];
  }

  simulation::ServiceHost& host(Service service, int i) {
    return *hosts_[static_cast<size_t>(service)][static_cast<size_t>(i)];
  }
  const Seen* SeenOf(uint32_t schedule, absl::Time nominal) const;
  uint64_t attempts() const { return attempts_; }
  absl::Time Now() const { return world.Now(); }

  sim::SimWorld world;
  sim::SimNetwork network;

 private:
  class Transport;

  static bool Unknown(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsAborted(status) ||
           absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status);
  }
  void Arrive(const handler::DeliveryAttempt& attempt, std::shared_ptr<handler::DeliverySink> sink,
              std::shared_ptr<sim::ProcessState> handler, uint64_t line,
              std::weak_ptr<bool> transport);
  // The answer, and how long it takes.
  std::pair<handler::DeliveryResult, absl::Duration> Receive(
      const handler::DeliveryAttempt& attempt);

  const std::function<const Traits&(uint32_t)> traits_of_;
  const std::function<bool()> is_down_;
  sim::SimRandom random_;
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, Seen> seen_;  // schedule and nominal second
  uint64_t attempts_ = 0;
  std::unique_ptr<simulation::StoreHost> store_;
  std::array<simulation::MasterApis, kHosts> apis_;
  std::array<Endpoint, kHosts> masters_;
  std::array<simulation::TokenEndpoint, 2 * kHosts> doors_;
  std::array<std::array<std::unique_ptr<simulation::ServiceHost>, kHosts>, kServices> hosts_;
  std::unique_ptr<sim::SimProcess> process_;  // the user's
  std::unique_ptr<kv::KvStore> connection_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
};

}  // namespace escapement::accounts

#endif  // TESTS_ACCOUNTS_WORLD_H_
