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

#ifndef COMMON_TOKENS_TOKEN_DOOR_H_
#define COMMON_TOKENS_TOKEN_DOOR_H_

#include <functional>
#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "common/tokens/local_grants.h"
#include "common/tokens/token_api.h"
#include "common/tokens/token_handle.h"

namespace escapement {

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
