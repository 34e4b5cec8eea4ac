#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {

std::vector<Violation> CheckRequests(const History& history) {
  struct Seen {
    uint64_t seq = 0;
  };
  std::vector<Violation> violations;
  std::unordered_map<std::string, Seen> written;  // by request: its last record
  std::unordered_map<std::string, bool> present;
  for (const Commit& commit : history.commits) {
    for (const QueueWrite& write : commit.queue) {
      const auto* request = std::get_if<RequestWrite>(&write);
      if (request == nullptr) continue;
      bool& there = present[request->request];
      if (request->deleted) {
        there = false;  // the record has expired
        continue;
      }
      if (there) {
        violations.push_back(
            {"requests", absl::StrCat("commit ", commit.seq, ": request ", request->request, " (",
                                      request->method, ") takes effect again, after commit ",
                                      written[request->request].seq)});
      }
      there = true;
      written[request->request] = {commit.seq};
    }
  }
  std::unordered_map<std::string, const Answer*> first;  // by request
  for (const Answer& answer : history.answers) {
    const auto record = written.find(answer.request_id);
    const Answer& before = *first.try_emplace(answer.request_id, &answer).first->second;
    if (record == written.end()) {
      violations.push_back({"requests", absl::StrCat("request ", answer.request_id,
                                                     " was answered OK, and no commit has it")});
    } else if (before.response_hash != answer.response_hash) {
      violations.push_back(
          {"requests", absl::StrCat("request ", answer.request_id, " was answered at ",
                                    absl::FormatTime(answer.time, absl::UTCTimeZone()),
                                    ", and otherwise than at ",
                                    absl::FormatTime(before.time, absl::UTCTimeZone()))});
    }
  }
  return violations;
}

}  // namespace escapement::simulation
