// Reads what was answered under a request_id.
//
// Threads: the callback runs on the context's executor or, where nothing is to be read, at once.

#ifndef SERVICES_MASTER_REQUESTS_REQUEST_READER_H_
#define SERVICES_MASTER_REQUESTS_REQUEST_READER_H_

#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/errors.h"
#include "services/master/master_context.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

// nullopt if there is no request_id or nothing was answered yet. INVALID_ARGUMENT if the answer was
// given to another request.
template <typename Response>
void ReadAnswer(MasterContext& context, const RequestMark& mark,
                absl::AnyInvocable<void(absl::StatusOr<std::optional<Response>>)> done) {
  if (!mark.active()) return done(std::optional<Response>());
  context.client.MultiGet(
      {mark.key()}, context.executor,
      [mark, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        Response response;
        const absl::StatusOr<bool> replayed = mark.Replay(result->values[0], &response);
        if (!replayed.ok()) return done(replayed.status());
        done(*replayed ? std::make_optional(std::move(response)) : std::nullopt);
      });
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_REQUEST_READER_H_
