// PgAppender: the appends and leads of a PgLog, on one connection.
//
// Threads: any thread may call any method; callbacks run on the session's thread. Appends are
// answered in the order of the calls.

#ifndef COMMON_KV_LOG_PG_PG_APPENDER_H_
#define COMMON_KV_LOG_PG_PG_APPENDER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/log/failed_append.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class PgAppender {
 public:
  // `session` must have pg::WriterStatements(), and `writer_name` as its application name.
  PgAppender(Runtime& runtime, std::string store, std::string writer_name,
             PgSession::Options session);

  void Lead(LeadRequest request, SharedLog::Callback<LeadResult> done);
  void Append(AppendRequest request, std::function<void(AppendResult)> done);
  void KeepOpen() { session_.KeepOpen(); }
  void Disconnect() { session_.Disconnect(); }

 private:
  struct Pending {
    AppendRequest request;
    std::function<void(AppendResult)> done;
    std::optional<AppendResult> result;
  };
  using Leading = std::shared_ptr<const LeadRequest>;

  void CreateAndLead(const LeadRequest& request, SharedLog::Callback<LeadResult> done);
  void TryLead(Leading request, int attempt, SharedLog::Callback<LeadResult> done);
  std::vector<PgStep> StepsOf(const AppendRequest& request) const;
  void Appended(const std::shared_ptr<Pending>& append, const PgAnswer& answer);
  void Diagnose(const std::shared_ptr<Pending>& append);
  void Settle(const std::shared_ptr<Pending>& append, AppendResult result);
  void EndOthers(const LogTerm& leader, PgSession::Done done);

  Runtime& runtime_;
  const std::string store_;
  const std::string writer_name_;

  absl::Mutex mu_;  // also keeps the order of appends the same here and in the session
  std::deque<std::shared_ptr<Pending>> pending_ ABSL_GUARDED_BY(mu_);

  FailedAppend failed_;  // touched on the session's thread

  PgSession session_;  // the last member: its callbacks use the others
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_PG_PG_APPENDER_H_
