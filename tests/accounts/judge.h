// Compares the account of a schedule with what its history allows: its definitions, its pauses, the
// faults of the day and what the consumer has seen.
//
// Each occurrence that the history gives must be in the account once, with an outcome that the
// history allows, and nothing else. Where the history decides the outcome, only that one is
// allowed. All times are true time; store time is equal to it in these tests.
//
// Pure.

#ifndef TESTS_ACCOUNTS_JUDGE_H_
#define TESTS_ACCOUNTS_JUDGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "escapement/v1/schedule_service.pb.h"
#include "tests/accounts/times.h"

namespace escapement::accounts {

// Stretches of time [begin, end), ascending and apart.
class Windows {
 public:
  Windows() = default;
  // Merges stretches that overlap.
  explicit Windows(std::vector<std::pair<absl::Time, absl::Time>> windows);
  // Each of the stretches, longer by that.
  Windows(const Windows& windows, absl::Duration longer);
  // The stretches that are in both.
  static Windows Common(const Windows& a, const Windows& b);

  // The last stretch that has a moment of [begin, end]; {past, past} if there is none.
  std::pair<absl::Time, absl::Time> Meeting(absl::Time begin, absl::Time end) const;
  bool Meets(absl::Time begin, absl::Time end) const {
    return Meeting(begin, end).second != absl::InfinitePast();
  }

 private:
  std::vector<std::pair<absl::Time, absl::Time>> windows_;
};

struct Faults {
  // When one of the service's processes was dead or frozen, and a while longer: until another one
  // has surely taken over.
  Windows emission, delivery, tokens;
  // When handlers were killed or frozen.
  std::vector<absl::Time> lost_handlers;
  // When all emitters were dead or frozen.
  Windows no_emitter;
  // When targets of Traits::Target::kDown were down, and until their events flow again.
  Windows down;
};

// The part of a schedule that no update changes.
struct Traits {
  enum class Target {
    kAccepts,
    kRefuses,  // each event, for good
    kFlaky,    // fails some attempts
    kDown,     // fails while it is down
    kSlow,     // accepts after a few minutes
  };
  enum class Overlap { kAllow, kSkip, kBufferOne };
  enum class Misfire { kFireAll, kFireLatest, kSkip };
  Target target = Target::kAccepts;
  Overlap overlap = Overlap::kAllow;
  Misfire misfire = Misfire::kFireAll;
  int64_t catch_up = 100;
  int events = 1;   // at most 16
  int policy = -1;  // no schedule has one and overlap
};

struct Version {
  absl::Time from = {};  // in force from it on; the first one: after it
  absl::Time called = {}, answered = {};
  Times times = {};
};

// When the calls were made and answered.
struct Pause {
  absl::Time called = {}, answered = {};
  absl::Time resume_called = absl::InfiniteFuture();
  absl::Time resumed = absl::InfiniteFuture();
};

// One uid.
struct Life {
  Traits traits;
  std::vector<Version> versions;
  std::vector<Pause> pauses;
};

// The consumer's record of one occurrence.
struct Seen {
  uint16_t arrived = 0, accepted = 0;          // bit i: event i
  uint32_t refused = 0;                        // attempts
  absl::Time first = absl::InfiniteFuture();   // the first arrival
  absl::Time last_new = absl::InfinitePast();  // the last arrival of an event that was new
  absl::Time last_answer = absl::InfinitePast();
};

struct Row {
  absl::Time nominal = {};
  v1::Occurrence::Result result = v1::Occurrence::RESULT_UNSPECIFIED;
  std::string reason = {};
};

struct AccountTimes {
  absl::Time begin = {}, end = {};        // the range
  absl::Time called = {}, answered = {};  // nothing has changed the schedule in between
};

// Each text is a breach.
std::vector<std::string> Judge(const Life& life, const std::vector<Row>& rows,
                               const AccountTimes& account, const Faults& faults,
                               const std::function<const Seen*(absl::Time nominal)>& seen);

}  // namespace escapement::accounts

#endif  // TESTS_ACCOUNTS_JUDGE_H_
