// SessionTable: the store's sessions and the answers it has given, so that a commit that is sent
// again is answered as the first time instead of being decided anew.
//
// Each session keeps one answer for each of its kSessionWindow slots, slot = number mod
// kSessionWindow. The answer of a commit that wrote something is written in the same batch; answers
// of commits that wrote nothing live in memory only: after a restart they are decided anew, which
// is safe because nothing of them was applied and the connection over which an older copy could
// arrive is gone.
//
// Answer on disk and in memory: number(8) code(1) seq(8) store time in µs(8) groups(2) failed(2),
// then for each group that failed its index(2) and its first failed condition(2); then the status
// message.
//
// Threads: one at a time.

#ifndef COMMON_KV_ENGINE_SESSION_TABLE_H_
#define COMMON_KV_ENGINE_SESSION_TABLE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

std::string EncodeAnswer(uint64_t number, const absl::StatusOr<CommitResult>& answer);
// The number is in *number. DATA_LOSS if the bytes are no answer.
absl::StatusOr<CommitResult> DecodeAnswer(absl::string_view bytes, uint64_t* number);

class SessionTable {
 public:
  // Beyond `sessions_max` the least recently used session is forgotten when one is opened. Numbers
  // of sessions are given out from `first_session` on, which no earlier process has come near to:
  // an opening that was lost with the end of the log must not give its number to a second client,
  // who would get the first one's answers.
  SessionTable(size_t sessions_max, uint64_t first_session)
      : sessions_max_(sessions_max), next_session_(first_session) {}

  // Reads what earlier processes wrote.
  void Load(BaseState& base);

  // Opens a session; what must be written goes to `sink`.
  uint64_t Open(WriteSink& sink);

  enum class Admission {
    kNew,       // decide it
    kAnswered,  // *answer holds the encoded first answer
    kRefused,   // unknown session, or a number that its window has left behind
  };
  Admission Admit(uint64_t session, uint64_t number, absl::string_view* answer);

  // Keeps the answer to an admitted kNew; writes it to `sink` if that is not null.
  void Record(uint64_t session, uint64_t number, std::string answer, WriteSink* sink);

  size_t size() const { return sessions_.size(); }

 private:
  struct Slot {
    uint64_t number = 0;
    std::string answer;
  };
  struct Session {
    uint64_t last_used = 0;
    std::array<Slot, kSessionWindow> slots;
  };
  void Forget(uint64_t session, WriteSink& sink);

  const size_t sessions_max_;
  uint64_t next_session_;
  uint64_t uses_ = 0;
  std::map<uint64_t, Session> sessions_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_SESSION_TABLE_H_
