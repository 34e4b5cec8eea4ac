// The order of an upgrade, enforced: real services over stores in this process whose leader does
// not know what it speaks, as a former release. The services wait, not ready and harmless.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/led_store.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace store_protocol_test {

constexpr char kServices[][16] = {"master", "emitter", "handler", "token_manager"};

class StoreProtocolTest : public ::testing::Test {
 protected:
  // Each service gets the addresses of both stores.
  void StartServices() {
    for (const char* service : kServices) {
      platform_.RouteStore(service, absl::StrCat(old_.address(), ",", new_.address()));
      const absl::Status started = platform_.Restart(service);
      ASSERT_TRUE(started.ok()) << started;
    }
  }
  void LeadOld() {
    new_.Follow(old_.address());
    old_.Lead();
  }
  void LeadNew() {
    old_.Follow(new_.address());
    new_.Lead();
  }
  void ExpectAllWait() {
    const std::string reason = absl::StrCat("the store's leader speaks 0, this program needs ",
                                            kv::kStoreProtocol, ": ", kv::kUpgradeStoreFirst);
    for (const char* service : kServices) {
      std::string last;
      EXPECT_TRUE(Await([&] {
        const auto answer = HttpGet(platform_.http_address(service), "/readyz");
        if (!answer.ok()) return false;
        last = answer->body;
        return answer->status == 503 && absl::StrContains(answer->body, reason);
      })) << service
          << ": " << last;
      EXPECT_TRUE(Await([&] {
        return CheckHealth(platform_.grpc_address(service)) == Health::kNotServing;
      })) << service;
      EXPECT_EQ(HttpGet(platform_.http_address(service), "/healthz")->status, 200) << service;
    }
    EXPECT_EQ(old_.calls(), 0);
  }
  void ExpectAllReady() {
    for (const char* service : kServices) {
      const absl::Status ready = platform_.AwaitReady(service);
      EXPECT_TRUE(ready.ok()) << ready;
    }
  }
  void ExpectDelivery(const std::string& id) {
    v1::Event event;
    event.set_payload("{}");
    *event.mutable_target() = HttpTo(http_->origin() + "/" + id);
    const auto created = ApiClient(platform_.grpc_address("master")).CreateEvent(id, event);
    ASSERT_TRUE(created.ok()) << created.status();
    ++delivered_;
    EXPECT_TRUE(Await([&] { return receipts_.Stats(kEvents).distinct == delivered_; }));
  }
  void TearDown() override {
    if (HasFailure()) platform_.ShowLogs({"master", "emitter", "handler", "token_manager"});
  }

  static constexpr char kEvents[] = "/tenants/default/events";

  fixtures::Receipts receipts_;
  const std::unique_ptr<fixtures::HttpReceiver> http_ =
      *fixtures::HttpReceiver::Start({}, &receipts_);
  uint64_t delivered_ = 0;
  SystemRuntime runtime_;
  kv::MemKvStore state_{runtime_, kv::MemKvStore::Options()};
  kv::LedStore old_{state_, "127.0.0.1:0", /*protocol=*/0};
  kv::LedStore new_{state_};
  Platform platform_{{.bin = BuiltFolder(), .folder = NewFolder("protocol")}};
};

TEST_F(StoreProtocolTest, ServicesUpgradedFirstWaitForTheStore) {
  LeadOld();
  StartServices();
  ExpectAllWait();
  LeadNew();
  ExpectAllReady();
  ExpectDelivery("after");
}

TEST_F(StoreProtocolTest, ServicesWaitWhileTheLeaderIsAnOldOneAgain) {
  LeadNew();
  StartServices();
  ExpectAllReady();
  ExpectDelivery("before");
  LeadOld();
  ExpectAllWait();
  LeadNew();
  ExpectAllReady();
  ExpectDelivery("after");
}

// The error says what to do, so escctl gives no other advice: a master has answered.
TEST_F(StoreProtocolTest, OperatorIsToldToUpgradeTheStore) {
  LeadOld();
  StartServices();
  ExpectAllWait();
  const std::string log = NewFolder("escctl") + "/words";
  auto escctl = ChildProcess::Start(
      {.program = BuiltFolder() + "/tools/escctl/escctl",
       .arguments = {"--server", platform_.grpc_address("master"), "store", "clock"},
       .log = log});
  ASSERT_TRUE(escctl.ok()) << escctl.status();
  EXPECT_NE(*(*escctl)->Wait(absl::Seconds(30)), 0);
  std::ifstream in(log);
  const std::string words(std::istreambuf_iterator<char>(in), {});
  EXPECT_TRUE(absl::StrContains(words, kv::kUpgradeStoreFirst)) << words;
  EXPECT_FALSE(absl::StrContains(words, "is a master at")) << words;
}

// A process that waits must not need SIGKILL.
TEST_F(StoreProtocolTest, ServiceThatWaitsEndsOnSigterm) {
  LeadOld();
  StartServices();
  ExpectAllWait();
  for (const char* service : kServices) EXPECT_EQ(*platform_.Terminate(service), 0) << service;
  EXPECT_EQ(old_.calls(), 0);
}

}  // namespace store_protocol_test
}  // namespace escapement::integration
