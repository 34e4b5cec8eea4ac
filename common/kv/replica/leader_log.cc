#include "common/kv/replica/leader_log.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/log.h"

namespace escapement::kv {
namespace {

constexpr BackoffPolicy kRetry{absl::Milliseconds(10), absl::Milliseconds(500), 2};

}  // namespace

LeaderLog::LeaderLog(Runtime& runtime, SharedLog& log, Options options)
    : runtime_(runtime),
      log_(log),
      options_(std::move(options)),
      timers_(runtime.NewExecutor("leader-log")),
      window_(options_.term, options_.place.position, options_.recent_bytes_max),
      place_(options_.place) {}

void LeaderLog::Append(std::string row, Done done) {
  if (row.size() > kLogRowBytesMax) {
    // The store's memory is ahead of the log by this batch, so the term cannot go on without it.
    const absl::Status why = absl::InternalError(
        absl::StrCat("a batch of ", row.size(), " bytes does not fit into a row of the log"));
    done(why);
    return End(why, /*tell=*/true);
  }
  absl::Status ended;
  {
    absl::MutexLock lock(&mu_);
    ended = ended_;
    if (ended.ok()) {
      done_.emplace(window_.Add(std::make_shared<const std::string>(std::move(row))),
                    std::move(done));
    }
  }
  if (!ended.ok()) return done(ended);
  Flush();
}

void LeaderLog::Flush() {
  while (true) {
    std::optional<AppendRequest> request;
    {
      absl::MutexLock lock(&mu_);
      // One thread sends at a time, also what others have added. So appends keep their order.
      if (flushing_ || !ended_.ok()) return;
      request = window_.NextToSend();
      if (!request.has_value()) return;
      flushing_ = true;
    }
    log_.Append(*std::move(request),
                [self = shared_from_this()](AppendResult result) { self->OnResult(result); });
    absl::MutexLock lock(&mu_);
    flushing_ = false;
  }
}

void LeaderLog::OnResult(const AppendResult& result) {
  std::vector<std::pair<Done, LogPlace>> answers;
  AppendWindow::Step step;
  bool first_failure = false;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) return;
    step = window_.OnResult(result);
    first_failure = step != AppendWindow::Step::kGoOn && failures_ == 0;
    for (const LogRow& row : window_.TakeAcknowledged()) {
      failures_ = 0;
      // A row that was lost and appended again has its place already.
      if (row.position.seq <= place_.position.seq) continue;
      auto place = PlaceBehind(place_, row);
      if (place.ok()) place_ = *place;
      place_.proven = place_.position;
      auto done = done_.extract(row.position.seq);
      if (!done.empty()) answers.emplace_back(std::move(done.mapped()), place_);
    }
  }
  if (first_failure) {
    Log(LogLevel::kWarning, "replica", "an append to the shared log failed and is settled now",
        {{"error", result.why.ToString()}});
  }
  for (auto& [done, place] : answers) done(place);
  Do(step);
}

void LeaderLog::Do(AppendWindow::Step step) {
  switch (step) {
    case AppendWindow::Step::kGoOn:
      return Flush();
    case AppendWindow::Step::kSendAgain:
      return Later(&LeaderLog::SendAgain);
    case AppendWindow::Step::kReadState:
      return ReadState();
    case AppendWindow::Step::kDeposed:
      return Depose();
    case AppendWindow::Step::kLost:
      return End(absl::DataLossError("the shared log has lost acknowledged commits, and this store "
                                     "cannot append them again"),
                 /*tell=*/true);
  }
}

void LeaderLog::SendAgain() {
  {
    absl::MutexLock lock(&mu_);
    window_.SendAgain();
  }
  Flush();
}

void LeaderLog::ReadState() {
  log_.ReadState(
      [self = shared_from_this()](absl::StatusOr<LogState> state) { self->OnState(state); });
}

void LeaderLog::OnState(const absl::StatusOr<LogState>& state) {
  if (!state.ok()) return Later(&LeaderLog::ReadState);
  AppendWindow::Step step;
  uint64_t lost = 0;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) return;
    lost = window_.rows_lost();
    step = window_.OnState(*state);
    lost = window_.rows_lost() - lost;
  }
  if (lost > 0) {
    Log(LogLevel::kError, "replica",
        "the shared log has lost acknowledged rows; they are appended again from memory, which may "
        "not suffice another time: check the durability of the log's engine",
        {{"rows", lost}, {"behind", state->last.seq}});
  }
  Do(step);
}

void LeaderLog::Later(void (LeaderLog::*retry)()) {
  uint32_t failures = 0;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) return;
    failures = ++failures_;
  }
  timers_->PostAfter(FullJitterBackoff(kRetry, failures, runtime_.random().Next()),
                     [self = shared_from_this(), retry] { ((*self).*retry)(); });
}

void LeaderLog::Stop() { End(absl::UnavailableError("the store has stopped"), /*tell=*/false); }

void LeaderLog::Depose() { End(absl::AbortedError("another store leads"), /*tell=*/true); }

void LeaderLog::End(absl::Status why, bool tell) {
  lease_.End();
  std::map<uint64_t, Done> unanswered;
  {
    absl::MutexLock lock(&mu_);
    if (!ended_.ok()) return;
    ended_ = why;
    unanswered.swap(done_);
  }
  for (auto& [seq, done] : unanswered) done(why);
  timers_->Stop();
  if (tell && options_.ended) options_.ended(why);
}

}  // namespace escapement::kv
