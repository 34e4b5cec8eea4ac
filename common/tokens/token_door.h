// TokenDoor: where consumers give tokens back. It checks handles, hands what belongs to a policy
// shard that is owned in this process to its owner (DONE), and stores reports for the others'
// owners (STORED).
//
// Of what is to be stored it reads the grants first, so a token that is not held is told NOT_HELD
// and makes no report; one that ends between this and the owner's turn makes a report that changes
// nothing. All of a request is stored in one commit. The results are in the request's order; of a
// token that a request gives back twice the first entry counts and the others are NOT_HELD
// (extending it twice is the same as once).
//
// Any number of doors may be open. Each has its own session with the store.
//
// Threads: calls and Ready from any; Start, Drain and the destructor from one, not from a callback.
// Callbacks run on an executor of its own (of calls that the destructor finds under way, in it).

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
    std::string instance = "token_door";  // unique for each start of a process
    LocalGrants* local = nullptr;         // outlives the door; null: everything is stored
    Metrics* metrics = nullptr;           // outlives the door; null: nothing is counted
    // Makes the platform's key if there is none yet.
    std::function<std::string()> fresh_key = FreshTokenKey;
  };

  // `store` and `runtime` outlive it.
  TokenDoor(Options options, kv::KvStore& store, Runtime& runtime);
  // Calls under way are answered UNAVAILABLE.
  ~TokenDoor() override;
  TokenDoor(const TokenDoor&) = delete;
  TokenDoor& operator=(const TokenDoor&) = delete;

  // Reads the platform's key and is ready then; calls before that are answered UNAVAILABLE
  // (NOT_READY).
  void Start();
  bool Ready() const;
  // Refuses new calls (UNAVAILABLE); `done` runs once those under way are answered. If the store
  // cannot be reached that does not happen: the caller bounds it.
  void Drain(Closure done);

  // As TokenApi. RESOURCE_EXHAUSTED: too much is under way; nothing was done.
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
