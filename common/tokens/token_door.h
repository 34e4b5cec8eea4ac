// The bounds of a TokenDoor, each with its effect.

#ifndef COMMON_TOKENS_TOKEN_DOOR_H_
#define COMMON_TOKENS_TOKEN_DOOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/rpc/done.h"
#include "common/runtime/runtime.h"
#include "common/tokens/token_batch.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement {

// The contract of TokenService: a larger request is refused with INVALID_ARGUMENT.
inline constexpr int kTokensMax = 10'000;                 // for one request
inline constexpr size_t kTokenOutputBytesMax = 4096;      // for one completion
inline constexpr size_t kTokenOutputsBytesMax = 8 << 20;  // for all completions of one request
inline constexpr absl::Duration kTokenHoldMin = absl::Seconds(1);
inline constexpr absl::Duration kTokenHoldMax = absl::Hours(24 * 30);
// Messages of one stream without an answer; one more ends the stream with RESOURCE_EXHAUSTED.
inline constexpr size_t kTokenStreamUnansweredMax = 64;

// Running calls of one process. Above this, a call is answered RESOURCE_EXHAUSTED with this retry
// delay.
inline constexpr size_t kTokenCallsMax = 16'384;
inline constexpr size_t kTokenCallBytesMax = size_t{256} << 20;  // sum of TokenBatch::bytes
inline constexpr absl::Duration kTokenBusyDelay = absl::Milliseconds(200);

// An event's `reason` is cut to this.
inline constexpr size_t kTokenReasonBytesMax = 256;
// Entries of one report row. Its reader then need not hold a whole request at once.
inline constexpr int kReportRowEntriesMax = 1000;
inline constexpr size_t kReportRowBytesMax = 1 << 20;
// Grants in one read: each contains its event's payload.
inline constexpr size_t kGrantsReadMax = 128;

// LocalGrants: hands completions to the owner of their policy shard, if the owner is in this
// process. (An owner elsewhere gets them as reports in `waiting`.)
//
// Threads: any; `done` runs on the owner's executor, exactly once.

class LocalGrants {
 public:
  // For each entry in order: true if it took effect, false if its token was no longer held.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)>;

  virtual ~LocalGrants() = default;

  // Applies completions, releases and extensions of one policy shard. Each entry is about one event
  // and has policy_uid, epoch and number set; time_micros 0 means now. Calls `done` when the effect
  // is durable. UNAVAILABLE: this process does not own the shard, or no longer, and the effect is
  // unknown. The caller then stores a report, which changes nothing if the effect was already
  // there.
  virtual void Apply(uint16_t policy_shard,
                     std::vector<storage::v1::GrantReportRecord::Entry> entries, Done done) = 0;
};

// TokenApi: TokenService without the wire, as token managers and masters offer it to consumers.
//
// Threads: any. Callbacks run on a thread of the implementation and must be quick. Each runs once.
// UNAVAILABLE means that the effect may not be durable: the call may be repeated, because it is
// idempotent.

class TokenApi {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Response>>)>;

  virtual ~TokenApi() = default;

  // INVALID_ARGUMENT if the request breaks the contract in the proto; then nothing is done.
  virtual void CompleteTokens(const v1::CompleteTokensRequest& request,
                              Done<v1::CompleteTokensResponse> done) = 0;
  virtual void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                             Done<v1::ReleaseTokensResponse> done) = 0;
  virtual void ExtendTokens(const v1::ExtendTokensRequest& request,
                            Done<v1::ExtendTokensResponse> done) = 0;

  // As PolicyService.OverridePolicy, by the caller of `done`, who may do it. UNIMPLEMENTED
  // (NEEDS_MASTER) unless a master overrides this.
  virtual void OverridePolicy(v1::OverridePolicyRequest request,
                              ::escapement::Done<v1::ThrottlePolicy> done);
};

// TokenDoor: where consumers give tokens back. It checks handles. If this process owns a token's
// policy shard, the owner gets the request (DONE). For other owners the door stores reports
// (STORED).
//
// Before it stores reports it reads the grants. A token that is not held is answered NOT_HELD and
// makes no report. If a token ends after this read, its report changes nothing. All reports of a
// request are stored in one commit. Results are in the order of the request. If a request gives a
// token back twice, the first entry counts and the others are NOT_HELD. (Extending it twice is the
// same as once.)
//
// Any number of doors may be open. Each has its own session with the store.
//
// Threads: any thread may make calls and ask Ready. Start, Drain and the destructor belong to one
// thread, and not to a callback. Callbacks run on the door's executor. The destructor runs those of
// calls that are still running.

class TokenDoor final : public TokenApi {
 public:
  struct Options {
    std::string instance = "token_door";  // unique to each start of a process
    LocalGrants* local = nullptr;         // must outlive the door; null: everything is stored
    Metrics* metrics = nullptr;           // must outlive the door; null: nothing is counted
    // Makes the platform's key if none exists.
    std::function<std::string()> fresh_key = FreshTokenKey;
  };

  // `store` and `runtime` must outlive the door.
  TokenDoor(Options options, kv::KvStore& store, Runtime& runtime);
  // Answers running calls with UNAVAILABLE.
  ~TokenDoor() override;
  TokenDoor(const TokenDoor&) = delete;
  TokenDoor& operator=(const TokenDoor&) = delete;

  // Reads the platform's key; then the door is ready. Earlier calls are answered UNAVAILABLE
  // (NOT_READY).
  void Start();
  bool Ready() const;
  // Refuses new calls (UNAVAILABLE). Runs `done` once all running calls are answered. While the
  // store cannot be reached that does not happen, so the caller must set a time limit.
  void Drain(Closure done);

  // See TokenApi. RESOURCE_EXHAUSTED: too many calls or bytes are in progress; nothing was done.
  // UNAVAILABLE, reason OTHER_CELL: a token is of another cell than the store; nothing was done. A
  // master takes the tokens of all cells.
  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override;
  void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                     Done<v1::ReleaseTokensResponse> done) override;
  void ExtendTokens(const v1::ExtendTokensRequest& request,
                    Done<v1::ExtendTokensResponse> done) override;

 private:
  class ResultCounters;
  class Core;
  class Call;
  template <typename Request, typename Response>
  void Take(ResultCounters* counters, const Request& request, Done<Response> done);

  const std::shared_ptr<Core> core_;
};

}  // namespace escapement

#endif  // COMMON_TOKENS_TOKEN_DOOR_H_
