// AnswerOr: answers a request again that was answered before.
//
// Threads: the callback runs on the context's executor or, where nothing is to be read, at once.

#ifndef SERVICES_MASTER_REQUESTS_REQUEST_READER_H_
#define SERVICES_MASTER_REQUESTS_REQUEST_READER_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/errors.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

// Gives `done` the answer that was given under the mark's request_id before, or an error:
// INVALID_ARGUMENT if that was the answer to another request. Calls `otherwise` if there is no
// request_id or nothing was answered yet. `done` must live until then: `otherwise` holds its owner.
template <typename Response>
void AnswerOr(MasterContext& context, const RequestMark& mark, Done<Response>& done,
              absl::AnyInvocable<void()> otherwise) {
  if (!mark.active()) return otherwise();
  context.client.MultiGet({mark.key()}, context.executor,
                          [mark, &done, otherwise = std::move(otherwise)](
                              absl::StatusOr<kv::GetResult> result) mutable {
                            if (!result.ok()) return done(StoreFailed(result.status()));
                            Response response;
                            const absl::StatusOr<bool> replayed =
                                mark.Replay(result->values[0], &response);
                            if (!replayed.ok()) return done(replayed.status());
                            if (*replayed) return done(std::move(response));
                            otherwise();
                          });
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_REQUEST_READER_H_
