// Secrets of targets through the whole platform: sealed by the master, opened by the handler.

#include <poll.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/signing/webhook_signer.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace target_secrets_test {

constexpr char kSecret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr char kOther[] = "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

using Request = std::pair<std::string, std::string>;  // head and body

std::string Header(const Request& request, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(request.first, "\r\n")) {
    const size_t colon = line.find(": ");
    if (colon != absl::string_view::npos && absl::EqualsIgnoreCase(line.substr(0, colon), name))
      return std::string(line.substr(colon + 2));
  }
  return "";
}

bool IsSignedWith(const std::string& secret, const Request& request) {
  const std::string time = Header(request, "webhook-timestamp");
  return !time.empty() && Header(request, "webhook-signature") ==
                              WebhookSigner::Make({secret})->Sign(Header(request, "webhook-id"),
                                                                  std::stoll(time), request.second);
}

class TargetSecretsTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& handler_flags = {}) {
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(), .folder = folder_, .extra_arguments = {{"handler", handler_flags}}});
    const absl::Status status = platform_->Start({"store", "master", "emitter", "handler"});
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
  }

  v1::Target Signed(const std::string& path, const std::string& secret) const {
    v1::Target target = HttpTo(receiver_->origin() + path);
    target.mutable_http()->add_signing_secrets(secret);
    return target;
  }

  // Waits for a request to this path.
  Request AwaitRequest(const std::string& path) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline) {
      for (const Request& request : receiver_->KeptRequests()) {
        if (absl::StartsWith(request.first, absl::StrCat("POST ", path, " "))) return request;
      }
      poll(nullptr, 0, 10);
    }
    ADD_FAILURE() << "nothing came to " << path;
    return {};
  }

  const std::string folder_ = NewFolder("target_secrets");
  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> receiver_ =
      *fixtures::HttpReceiver::Start({.kept_requests_max = 100}, &receipts_);
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
};

TEST_F(TargetSecretsTest, EventsAreSignedWithTheStoredSecret) {
  Start();
  v1::Event event;
  event.mutable_due_time()->set_seconds(1);
  event.set_payload("hello");
  *event.mutable_target() = Signed("/one-off", kSecret);
  const auto created = api_->CreateEvent("e", event);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(absl::StartsWith(created->target().http().signing_secrets(0), "sealed:"));
  EXPECT_TRUE(IsSignedWith(kSecret, AwaitRequest("/one-off")));
  EXPECT_FALSE(IsSignedWith(kOther, AwaitRequest("/one-off")));
}

// A schedule that was read can be changed and written back, with its secrets.
TEST_F(TargetSecretsTest, AnUpdateWithThePlaceholderKeepsTheSecret) {
  Start();
  v1::Schedule schedule;
  schedule.set_cron("0 3 1 1 *");
  schedule.set_payload("former");
  *schedule.mutable_target() = Signed("/run", kSecret);
  *schedule.mutable_on_complete() = Signed("/completed", kOther);
  ASSERT_TRUE(api_->CreateSchedule("s", schedule).ok());
  auto shown = api_->GetSchedule("s");
  ASSERT_TRUE(shown.ok()) << shown.status();
  const auto stub = v1::ScheduleService::NewStub(NewChannel(platform_->grpc_address("master")));
  v1::UpdateScheduleRequest update;
  *update.mutable_schedule() = *shown;
  update.mutable_schedule()->set_payload("new");
  update.mutable_update_mask()->add_paths("*");
  v1::Schedule updated;
  grpc::ClientContext context;
  const grpc::Status status = stub->UpdateSchedule(&context, update, &updated);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(updated.target().http().signing_secrets(0), shown->target().http().signing_secrets(0));
  ASSERT_TRUE(api_->TriggerSchedule("s").ok());
  const Request run = AwaitRequest("/run");
  EXPECT_EQ(run.second, "new");
  EXPECT_TRUE(IsSignedWith(kSecret, run));
  EXPECT_TRUE(IsSignedWith(kOther, AwaitRequest("/completed")));
}

TEST_F(TargetSecretsTest, AHandlerWithOtherKeysSaysThatItCannotOpenThem) {
  const std::string keys = folder_ + "/other.keys";
  std::ofstream(keys) << "other: " << absl::Base64Escape(std::string(32, 'o')) << "\n";
  Start({"--secret_keys_file=" + keys});
  v1::Event event;
  event.mutable_due_time()->set_seconds(1);
  event.mutable_retry_policy()->set_max_attempts(1);
  *event.mutable_target() = Signed("/never", kSecret);
  const auto created = api_->CreateEvent("e", event);
  ASSERT_TRUE(created.ok()) << created.status();
  v1::Event shown = *created;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (shown.state() != v1::ENDED && absl::Now() < deadline) {
    poll(nullptr, 0, 10);
    shown = *api_->GetEvent(created->name());
  }
  EXPECT_EQ(shown.outcome(), v1::FAILED);
  EXPECT_TRUE(absl::StrContains(shown.reason(), "its secrets cannot be opened")) << shown.reason();
  EXPECT_TRUE(receiver_->KeptRequests().empty());

  // While it waits for its next attempt, the answer says what would help.
  event.mutable_retry_policy()->set_max_attempts(2);
  event.mutable_retry_policy()->mutable_min_backoff()->set_seconds(3600);
  event.mutable_retry_policy()->mutable_max_backoff()->set_seconds(3600);
  const auto waiting = api_->CreateEvent("w", event);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  const auto stub = v1::EventService::NewStub(NewChannel(platform_->grpc_address("master")));
  v1::EventExplanation why;
  while ((why.gates_size() != 1 || why.gates(0).kind() != v1::Gate::RETRY) &&
         absl::Now() < deadline) {
    poll(nullptr, 0, 10);
    grpc::ClientContext context;
    v1::ExplainEventRequest request;
    request.set_name(waiting->name());
    ASSERT_TRUE(stub->ExplainEvent(&context, request, &why).ok());
  }
  ASSERT_EQ(why.gates_size(), 1) << why.DebugString();
  EXPECT_TRUE(absl::StrContains(why.gates(0).reason(), "its secrets cannot be opened"));
  EXPECT_TRUE(absl::StrContains(why.gates(0).opens(), "--secret_keys_file"));
}

}  // namespace target_secrets_test
}  // namespace escapement::integration
