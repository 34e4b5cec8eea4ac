// FuzzRun: one seed of random calls of a whole API, judged.
//
// Besides the checks of judge.h on every answer:
//   - a Get shows an acknowledged resource with the fields of its answer;
//   - a deleted resource is gone;
//   - a list, page by page, has every resource exactly once, as the Gets have it;
//   - a stream answers every message, or ends with an error;
//   - the server does not call a readable request unreadable.
//
// Threads: one at a time.

#ifndef TESTS_API_FUZZ_FUZZ_RUN_H_
#define TESTS_API_FUZZ_FUZZ_RUN_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/api_fuzz/hostile_values.h"
#include "tests/api_fuzz/model.h"
#include "tests/api_fuzz/request_maker.h"
#include "tests/api_fuzz/wire_api.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/platform.h"

namespace escapement::api_fuzz {

class FuzzRun {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t calls = 1000;
    std::vector<std::string> http_uris;
    std::vector<std::string> grpc_uris;
    size_t findings_max = 20;  // the run ends at this number
    std::function<bool()> alive;
  };

  // `api` outlives the run.
  FuzzRun(WireApi& api, Options options);

  // Returns the findings as texts of several lines: seed, call, method, request, answer.
  const std::vector<std::string>& Run();
  // Number of calls by method and result, e.g. "GetRun NOT_FOUND".
  const std::map<std::string, int>& tally() const { return tally_; }

 private:
  using Messages = std::vector<std::unique_ptr<google::protobuf::Message>>;
  struct Exchange {
    const Method* method = nullptr;
    std::vector<std::string> sent;
    bool damaged = false;
    fixtures::RawAnswer answer = {};
    Messages answers = {};
  };

  void Step();
  // Makes the call, judges its answer and counts it.
  Exchange Call(const Method& method, std::vector<std::string> sent, bool damaged = false,
                size_t cancel_after = 0);
  void Unary(const Method& method);
  void Stream(const Method& method);
  void Learn(const Exchange& call, const google::protobuf::Message& request);
  void LearnIngested(const Exchange& call);
  // Calls the resource's Get. Returns nullopt if its kind has none.
  std::optional<Exchange> Get(const std::string& name);
  void CheckThere(const std::string& name);
  void CheckGone(const std::string& name);
  struct Listed {
    std::set<std::string> names;
    std::string collection;  // "…/schedules/", as soon as a name was seen
  };
  void CheckList(const Method& method, const std::string& parent);
  bool ReadList(const Method& method, const std::string& parent, const std::string& order,
                Listed& listed, Exchange& call);
  void CheckAll();
  void Found(const Exchange& call, const std::string& what);
  std::string Show(const Exchange& call);

  WireApi& api_;
  const Options options_;
  HostileValues values_;
  Model model_;
  RequestMaker maker_;
  // Methods to draw from; those that create resources several times.
  std::vector<const Method*> drawn_;
  std::set<std::string> request_ids_;
  uint64_t call_ = 0;
  std::vector<std::string> findings_;
  std::map<std::string, int> tally_;
};

// Rules for every answer, whatever the request was. Each function says what is wrong, or returns
// "".
//
// Pure.

// A client must be able to act on an error. It may not be INTERNAL, UNKNOWN, DATA_LOSS,
// UNIMPLEMENTED or DEADLINE_EXCEEDED. It has an ErrorInfo and plain texts; INVALID_ARGUMENT also
// names the fields.
std::string JudgeStatus(const grpc::Status& status);

// No string in an answer may have control characters. Errors inside an answer follow JudgeStatus.
std::string JudgeTexts(const google::protobuf::Message& answer);

// Bed: a standalone platform with consumers, for one seed after the other.

class Bed {
 public:
  // `bin` holds services/standalone/standalone; data and logs go below `folder`, which exists.
  static absl::StatusOr<std::unique_ptr<Bed>> Start(const std::string& bin,
                                                    const std::string& folder);

  WireApi& api() { return *api_; }
  FuzzRun::Options OptionsFor(uint64_t seed, uint64_t calls);
  // Sends SIGTERM. Returns "" if the process ended well; otherwise how it ended.
  std::string End();

 private:
  Bed() = default;

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<fixtures::GrpcReceiver> grpc_;
  std::unique_ptr<fixtures::GrpcReceiver> rejecting_;
  std::unique_ptr<integration::Platform> platform_;
  std::unique_ptr<WireApi> api_;
};

}  // namespace escapement::api_fuzz

#endif  // TESTS_API_FUZZ_FUZZ_RUN_H_
