#include "common/kv/log/pg/pg_appender.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/kv/log/pg/pg_statements.h"

namespace escapement::kv {
namespace {

using Outcome = AppendResult::Outcome;
using Kind = PgAnswer::Kind;

// A former leader's transaction may hold the lock on the leader's row. Each attempt waits for
// lock_timeout, then ends the former leader's connections.
constexpr int kLeadAttempts = 4;

absl::Status Moved() {
  return absl::AbortedError("the log has another leader, or has grown, since the state was read");
}

}  // namespace

PgAppender::PgAppender(Runtime& runtime, std::string store, std::string writer_name,
                       PgSession::Options session)
    : runtime_(runtime),
      store_(std::move(store)),
      writer_name_(std::move(writer_name)),
      session_(runtime, std::move(session)) {}

void PgAppender::Lead(LeadRequest request, SharedLog::Callback<LeadResult> done) {
  if (request.seen.leader.epoch == 0) return CreateAndLead(request, std::move(done));
  TryLead(std::make_shared<const LeadRequest>(std::move(request)), 1, std::move(done));
}

void PgAppender::CreateAndLead(const LeadRequest& request, SharedLog::Callback<LeadResult> done) {
  const uint64_t genesis = runtime_.random().Next();
  std::vector<PgStep> steps;
  steps.push_back({pg::kLeadCreate,
                   {PgValue::Text(store_), PgValue::Bigint(genesis), PgValue::Text(request.owner),
                    PgValue::Text(request.address)}});
  steps.push_back(
      {pg::kLeadFirstRow,
       {PgValue::Text(store_), PgValue::Bigint(genesis), PgValue::Text(request.owner)}});
  session_.Run(std::move(steps),
               [genesis, owner = request.owner, done = std::move(done)](const PgAnswer& answer) {
                 if (answer.kind != Kind::kCommitted) return done(answer.why);
                 if (answer.rows[0].affected() != 1) return done(Moved());
                 done(LeadResult{.term = {1, owner}, .first = {0, genesis}, .last = {0, genesis}});
               });
}

void PgAppender::TryLead(Leading request, int attempt, SharedLog::Callback<LeadResult> done) {
  std::vector<PgStep> steps;
  const LogState& seen = request->seen;
  steps.push_back({pg::kLeadLock, {PgValue::Text(store_)}});
  steps.push_back(
      {pg::kLeadRaise,
       {PgValue::Text(store_), PgValue::Bigint(seen.leader.epoch), PgValue::Text(seen.leader.owner),
        PgValue::Text(request->owner), PgValue::Text(request->address),
        PgValue::Bigint(seen.last.seq), PgValue::Bigint(seen.last.chain)}});
  steps.push_back({pg::kState, {PgValue::Text(store_)}});
  session_.Run(std::move(steps), [this, request, attempt,
                                  done = std::move(done)](const PgAnswer& answer) mutable {
    if (answer.kind == Kind::kRefused && answer.sqlstate == kPgLockTimeout &&
        attempt < kLeadAttempts) {
      return EndOthers(request->seen.leader,
                       [this, request, attempt, done = std::move(done)](const PgAnswer&) mutable {
                         TryLead(request, attempt + 1, std::move(done));
                       });
    }
    if (answer.kind != Kind::kCommitted) return done(answer.why);
    if (answer.rows[1].affected() != 1) return done(Moved());
    const LogState state = pg::StateOf(answer.rows[2]);
    done(LeadResult{.term = state.leader, .first = state.first, .last = state.last});
  });
}

void PgAppender::EndOthers(const LogTerm& leader, PgSession::Done done) {
  session_.Run({{pg::kEndOthers,
                 {PgValue::Text(store_), PgValue::Text(writer_name_), PgValue::Bigint(leader.epoch),
                  PgValue::Text(leader.owner)}}},
               std::move(done));
}

std::vector<PgStep> PgAppender::StepsOf(const AppendRequest& request) const {
  std::vector<PgStep> steps;
  LogPosition before = request.after;
  for (const LogRow& row : request.rows) {
    steps.push_back({pg::kAppend,
                     {PgValue::Text(store_), PgValue::Bigint(request.term.epoch),
                      PgValue::Text(request.term.owner), PgValue::Bigint(before.seq),
                      PgValue::Bigint(before.chain), PgValue::Bigint(row.position.chain),
                      PgValue::Bytes(row.data)}});
    before = row.position;
  }
  return steps;
}

void PgAppender::Append(AppendRequest request, std::function<void(AppendResult)> done) {
  std::vector<PgStep> steps = StepsOf(request);
  auto append = std::make_shared<Pending>(Pending{std::move(request), std::move(done), {}});
  absl::MutexLock lock(&mu_);
  pending_.push_back(append);
  session_.Run(std::move(steps),
               [this, append](const PgAnswer& answer) { Appended(append, answer); });
}

void PgAppender::Appended(const std::shared_ptr<Pending>& append, const PgAnswer& answer) {
  switch (answer.kind) {
    case Kind::kCommitted:
      // The last row is in only if all before it are: its chain says so.
      if (answer.rows.back().affected() == 1)
        return Settle(append, {.outcome = Outcome::kAcknowledged});
      return Diagnose(append);
    case Kind::kRefused:
      if (answer.sqlstate == kPgDuplicateKey) return Diagnose(append);
      if (answer.sqlstate == kPgLockTimeout) {
        // Another writer's transaction has not ended, though it no longer leads.
        EndOthers(append->request.term, [](const PgAnswer&) {});
      }
      return Settle(append, {.outcome = Outcome::kNotApplied, .why = answer.why});
    case Kind::kNotStarted:
      return Settle(append, {.outcome = Outcome::kNotApplied, .why = answer.why});
    case Kind::kUnknown:
    case Kind::kUnproven:
      return Settle(append, {.outcome = Outcome::kUnknown, .why = answer.why});
  }
}

void PgAppender::Diagnose(const std::shared_ptr<Pending>& append) {
  session_.Run(
      {{pg::kAppendDiagnose,
        {PgValue::Text(store_), PgValue::Bigint(append->request.rows.back().position.seq)}}},
      [this, append](const PgAnswer& answer) {
        if (answer.kind != Kind::kCommitted)
          return Settle(append, {.outcome = Outcome::kNotApplied, .why = answer.why});
        const PgRows& rows = answer.rows.front();
        const AppendRequest& request = append->request;
        if (rows.size() == 0 || rows.Bigint(0, 0) != request.term.epoch ||
            rows.Bytes(0, 1) != request.term.owner) {
          return Settle(append, {.outcome = Outcome::kDeposed,
                                 .why = absl::FailedPreconditionError(
                                     rows.size() == 0 ? std::string("the log is gone")
                                                      : absl::StrCat("epoch ", rows.Bigint(0, 0),
                                                                     " leads the log"))});
        }
        if (!rows.IsNull(0, 2) && rows.Bigint(0, 2) == request.rows.back().position.chain) {
          return Settle(append, {.outcome = Outcome::kPresent,
                                 .why = absl::AlreadyExistsError("the rows are there")});
        }
        Settle(append, {.outcome = Outcome::kConflict,
                        .why = absl::AbortedError(absl::StrCat(
                            "the log ends at ", rows.IsNull(0, 3) ? 0 : rows.Bigint(0, 3),
                            ", and not at the history before ", request.after.seq + 1))});
      });
}

void PgAppender::Settle(const std::shared_ptr<Pending>& append, AppendResult result) {
  append->result = std::move(result);
  while (true) {
    std::shared_ptr<Pending> head;
    {
      absl::MutexLock lock(&mu_);
      if (pending_.empty() || !pending_.front()->result.has_value()) return;
      head = std::move(pending_.front());
      pending_.pop_front();
    }
    AppendResult answer = failed_.Explain(head->request, *std::move(head->result));
    head->done(std::move(answer));
  }
}

}  // namespace escapement::kv
