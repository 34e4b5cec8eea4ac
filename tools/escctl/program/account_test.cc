// `escctl account` against a server whose account is in two pages.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tools/escctl/program/program.h"

namespace escapement::escctl {
namespace account_test {

using ::testing::HasSubstr;
using ::testing::Not;

// The first page has `lost` lost occurrences, the second one a late one.
class AccountServer : public v1::ScheduleService::Service {
 public:
  explicit AccountServer(int lost) : lost_(lost) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~AccountServer() override { server_->Shutdown(); }

  grpc::Status ListOccurrences(grpc::ServerContext*, const v1::ListOccurrencesRequest* request,
                               v1::ListOccurrencesResponse* page) override {
    parent_ = request->parent();
    const bool first = request->page_token().empty();
    if (first) page->set_next_page_token("second");
    page->set_schedule_count(1);
    Count(v1::Occurrence::ON_TIME, 20, page);
    if (!first) {
      Count(v1::Occurrence::LATE, 1, page);
      Add("late", v1::Occurrence::LATE, page);
    } else if (lost_ > 0) {
      Count(v1::Occurrence::UNACCOUNTED, lost_, page);
      for (int i = 0; i < lost_; ++i)
        Add(absl::StrCat("lost", i), v1::Occurrence::UNACCOUNTED, page);
    }
    return grpc::Status::OK;
  }

  const std::string& address() const { return address_; }
  const std::string& parent() const { return parent_; }

 private:
  static void Count(v1::Occurrence::Result result, int64_t count,
                    v1::ListOccurrencesResponse* page) {
    page->add_counts()->set_result(result);
    page->mutable_counts(page->counts_size() - 1)->set_count(count);
  }
  static void Add(const std::string& run, v1::Occurrence::Result result,
                  v1::ListOccurrencesResponse* page) {
    page->add_occurrences()->set_run(run);
    page->mutable_occurrences(page->occurrences_size() - 1)->set_result(result);
  }

  const int lost_;
  std::string parent_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

struct Ran {
  int exit_code = 0;
  std::string data;
};

Ran RunAccount(const AccountServer& server, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "escctl");
  arguments.insert(arguments.end(), {"--server", server.address()});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  Ran ran;
  ran.exit_code = RunProgram(static_cast<int>(argv.size()), argv.data());
  ran.data = testing::internal::GetCapturedStdout();
  return ran;
}

TEST(AccountCommand, AddsUpAllPagesAndNamesWhatIsNoteworthy) {
  const AccountServer server(0);
  const Ran ran = RunAccount(server, {"account", "--all", "--hours", "48"});
  EXPECT_EQ(ran.exit_code, kExitOk);
  EXPECT_EQ(server.parent(), "tenants/default/schedules/-");
  EXPECT_THAT(ran.data, HasSubstr("ON_TIME  40"));
  EXPECT_THAT(ran.data, HasSubstr("LATE     1"));
  EXPECT_THAT(ran.data, HasSubstr("late "));
}

TEST(AccountCommand, FailsIfAnOccurrenceIsUnaccountedFor) {
  const AccountServer server(3);
  const Ran ran = RunAccount(server, {"schedule", "account", "s", "--limit", "2"});
  EXPECT_EQ(ran.exit_code, kExitFailed);
  EXPECT_EQ(server.parent(), "tenants/default/schedules/s");
  EXPECT_THAT(ran.data, HasSubstr("UNACCOUNTED  3"));
  EXPECT_THAT(ran.data, HasSubstr("lost1"));
  EXPECT_THAT(ran.data, Not(HasSubstr("lost2")));
}

}  // namespace account_test
}  // namespace escapement::escctl
