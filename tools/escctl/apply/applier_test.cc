// Applier against a server that changes the schedule between two calls.

#include "tools/escctl/apply/applier.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement::escctl {
namespace applier_test {

// Refuses the first `refusals` changes that are not only validated.
class ChangingServer : public v1::ScheduleService::Service {
 public:
  explicit ChangingServer(int refusals) : refusals_(refusals) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~ChangingServer() override { server_->Shutdown(); }

  grpc::Status GetSchedule(grpc::ServerContext*, const v1::GetScheduleRequest* request,
                           v1::Schedule* schedule) override {
    schedule->set_name(request->name());
    schedule->set_cron("0 3 * * *");
    schedule->set_etag(absl::StrCat("etag", ++etag_));
    return grpc::Status::OK;
  }
  grpc::Status UpdateSchedule(grpc::ServerContext*, const v1::UpdateScheduleRequest* request,
                              v1::Schedule* schedule) override {
    calls_.push_back(absl::StrCat(request->validate_only() ? "validate " : "write ",
                                  request->schedule().etag(), " ",
                                  request->update_mask().paths(0)));
    *schedule = request->schedule();
    if (request->validate_only() || refusals_-- <= 0) return grpc::Status::OK;
    return {grpc::StatusCode::ABORTED, "the etag is stale"};
  }

  const std::string& address() const { return address_; }
  const std::vector<std::string>& calls() const { return calls_; }

 private:
  int refusals_;
  int etag_ = 0;
  std::vector<std::string> calls_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

Applied ApplyTo(const ChangingServer& server, bool dry_run) {
  CLI::App app;
  Session session;
  session.AddFlags(app);
  app.parse(absl::StrCat("--server ", server.address()));
  v1::Schedule wanted;
  wanted.set_name("tenants/default/schedules/s");
  wanted.set_cron("0 4 * * *");
  return Applier(session, dry_run).Apply(wanted);
}

TEST(ApplierTest, WritesWithTheEtagThatItHasJustRead) {
  ChangingServer server(/*refusals=*/1);
  const Applied applied = ApplyTo(server, /*dry_run=*/false);
  EXPECT_TRUE(applied.status.ok()) << applied.status.error_message();
  EXPECT_EQ(applied.effect, ApplyEffect::kConfigured);
  EXPECT_EQ(server.calls(), (std::vector<std::string>{"validate etag1 *", "write etag1 *",
                                                      "validate etag2 *", "write etag2 *"}));
}

TEST(ApplierTest, GivesUpAfterThreeLostRaces) {
  ChangingServer server(/*refusals=*/100);
  EXPECT_EQ(ApplyTo(server, /*dry_run=*/false).status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(server.calls().size(), 6u);
}

TEST(ApplierTest, DryRunOnlyValidates) {
  ChangingServer server(/*refusals=*/0);
  const Applied applied = ApplyTo(server, /*dry_run=*/true);
  EXPECT_EQ(applied.effect, ApplyEffect::kConfigured);
  EXPECT_EQ(server.calls(), std::vector<std::string>{"validate etag1 *"});
}

}  // namespace applier_test
}  // namespace escapement::escctl
