// Judges what stores of a replicated store answered to clients that called each of them directly
// (store_probes.h), by the commits that are in the log in the end.
//
// Rules:
// - answer_stale: after anybody has had an answer with a sequence, no later call is answered with
//   an older one. So a leader that was replaced answers no read.
// - answer_lost: an acknowledged commit is in the log, under its sequence.
// - answer_phantom: a read shows exactly what the commits up to its sequence have written.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_REPLICATED_CHECK_ANSWERS_H_
#define TESTS_E2E_CHAOS_REPLICATED_CHECK_ANSWERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

// The key in kMeta that the probe of this store writes. Its value is the commit's number.
std::string ProbeKey(absl::string_view store);

// A call that was answered OK.
struct ProbeAnswer {
  std::string store = {};
  absl::Time called = {};    // before it was sent
  absl::Time answered = {};  // after the answer came
  kv::CommitSeq seq = 0;
  // A commit: its session and number. Session 0: a read.
  uint64_t session = 0;
  uint64_t number = 0;
  std::map<std::string, std::string> values = {};  // by ProbeKey; only for a read; absent: ""
};

// `commits`: the commits 1, 2, 3 … of the log.
std::vector<simulation::Violation> CheckAnswers(const std::vector<ProbeAnswer>& answers,
                                                const std::vector<LoggedCommit>& commits);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_CHECK_ANSWERS_H_
