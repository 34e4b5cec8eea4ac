#include "services/handler/sending/target_state_loop.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace target_state_loop_test {

// Answers every attempt at once.
class AcceptingTransport : public DeliveryTransport {
 public:
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override {
    for (const DeliveryAttempt& attempt : attempts)
      sink->OnResult(attempt.tag, {.status = DeliveryStatus::kAccepted, .message = ""});
  }
};

class TargetStateLoopTest : public ::testing::Test {
 protected:
  void Use(const std::string& target_key, const std::string& tenant) {
    auto context = std::make_shared<DeliveryContext>();
    context->target_key = target_key;
    context->timeout = absl::Seconds(10);
    auto claim = std::make_shared<Claim>();
    claim->owner = &owner_;
    claim->entries.resize(1);
    claim->entries[0].context = std::move(context);
    storage::v1::EventRecord event;
    event.set_tenant(tenant);
    event.set_version(1);
    claim->entries[0].event = EventRow(std::move(event));
    sends_.Reserve(target_key, 1);
    sends_.Add(std::move(claim), 0, 0, 1, Now());
    sends_.SendDue(Now());
  }
  // The tenants "t0" to "t{tenants - 1}" use their targets.
  void UseBy(size_t tenants) {
    for (size_t i = 0; i < tenants; ++i) Use(absl::StrCat("g:", i % 100), absl::StrCat("t", i));
    runtime_.RunUntilIdle();
  }
  void Step() {
    loop_.Step(Now());
    runtime_.AdvanceBy(kTargetStateStep);
  }
  // The update times of the rows, by tenant.
  std::map<std::string, absl::Time> Rows() const {
    std::map<std::string, absl::Time> rows;
    constexpr auto kFamily = static_cast<size_t>(kv::ColumnFamily::kTargetStates);
    for (const auto& [key, value] : store_.disk()->families[kFamily]) {
      storage::v1::TargetRowRecord row;
      EXPECT_TRUE(row.ParseFromString(value));
      rows[DecodeTargetRowKey(key)->tenant] = FromMicros(row.state().update_time_micros());
    }
    return rows;
  }
  absl::Time Now() { return runtime_.world().Now(); }

  class Owner : public ClaimOwner {
   public:
    Check BeforeSend(const std::shared_ptr<Claim>&, uint32_t, uint64_t, uint64_t) override {
      return Check::kSend;
    }
    void OnResult(const std::shared_ptr<Claim>&, AttemptEnd) override {}
  };

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, kv::MemKvStore::Options()};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("handler");
  kv::KvClient client_{store_, runtime_, kv::KvClient::Options()};
  AcceptingTransport transport_;
  HandlerOptions options_;
  Metrics registry_;
  HandlerMetrics metrics_{registry_};
  Owner owner_;
  ClaimLead lead_;
  MinuteSums statistics_{client_, runtime_, executor_};
  SendLoop sends_{options_,   lead_,    runtime_,    executor_,
                  transport_, metrics_, statistics_, [this] { return Now(); },
                  [] {}};
  TargetStateLoop loop_{"a", sends_, client_, runtime_, executor_, metrics_};
};

TEST_F(TargetStateLoopTest, EveryBusyTargetHasItsTurn) {
  // The rows of ten steps. After five steps the first of them are due again.
  constexpr size_t kTenants = 10 * kTargetRowsMax;
  for (int i = 0; i < 10; ++i) {
    UseBy(kTenants);
    Step();
  }
  ASSERT_EQ(Rows().size(), kTenants);
  const absl::Time first_round = Now();
  for (int i = 0; i < 10; ++i) {
    UseBy(kTenants);
    Step();
  }
  for (const auto& [tenant, updated] : Rows()) ASSERT_GE(updated, first_round) << tenant;
}

TEST_F(TargetStateLoopTest, BusyTargetsDoNotKeepTheRowsOfIdleOnes) {
  constexpr size_t kBusy = 6 * kTargetRowsMax;
  UseBy(kBusy + kTargetRowsMax);
  for (int i = 0; i < 7; ++i) Step();
  ASSERT_EQ(Rows().size(), kBusy + kTargetRowsMax);
  runtime_.AdvanceBy(kTargetIdle);
  for (int i = 0; i < 7; ++i) {
    UseBy(kBusy);
    Step();
  }
  EXPECT_EQ(Rows().size(), kBusy);
}

}  // namespace target_state_loop_test
}  // namespace escapement::handler
