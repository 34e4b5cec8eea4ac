// SessionTable: the store's sessions and the answers it gave. A commit that is sent again gets its
// first answer instead of a second decision.
//
// Each session keeps one answer for each of its kSessionWindow slots (slot = number mod
// kSessionWindow). If the commit wrote something, its answer is written in the same batch.
// Otherwise the answer lives in memory only, and a restarted store decides the commit again. That
// is safe: the commit applied nothing, and the connection that could deliver an older copy is gone.
//
// Answer on disk and in memory: number(8) code(1) seq(8) store time in µs(8) groups(2) failed(2).
// Then for each group that failed its index(2) and its first failed condition(2). Then the status
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
// Sets `number` to the commit's number. DATA_LOSS if the bytes are not an answer.
absl::StatusOr<CommitResult> DecodeAnswer(absl::string_view bytes, uint64_t& number);

class SessionTable {
 public:
  // If there are `sessions_max` sessions, opening another one forgets the least recently used.
  // Session numbers start at `first_session`, far from the numbers of all earlier processes.
  // Otherwise, if a crash loses the record of an opened session, a second client could get the same
  // number and would receive the first client's answers.
  SessionTable(size_t sessions_max, uint64_t first_session)
      : sessions_max_(sessions_max), next_session_(first_session) {}

  // Loads the sessions and answers that earlier processes wrote.
  void Load(BaseState& base);

  // Opens a session and writes it to `sink`.
  uint64_t Open(WriteSink& sink);

  enum class Admission {
    kNew,       // decide it
    kAnswered,  // `answer` holds the encoded first answer
    kRefused,   // unknown session, or a number that has left its window
  };
  Admission Admit(uint64_t session, uint64_t number, absl::string_view& answer);

  // Keeps the answer of an admitted kNew commit, and writes it to `sink` unless that is null.
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
