#include "tests/conformance/log/log_actor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::kv {
namespace {

using Outcome = AppendResult::Outcome;

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kSilence = absl::Seconds(3);
constexpr absl::Duration kLease = absl::Milliseconds(2800);
constexpr size_t kInFlightMax = 3;

}  // namespace

LogActor::LogActor(Runtime& runtime, std::unique_ptr<SharedLog> log, Options options)
    : runtime_(runtime),
      options_(std::move(options)),
      executor_(runtime.NewExecutor("log-actor")),
      log_(std::move(log)) {
  executor_->Post([this] { Tick(); });
}

LogActor::~LogActor() {
  executor_->Stop();
  alive_.reset();
}

void LogActor::Tick() {
  if (role_ == Role::kFollower && !busy_) Observe();
  if (role_ == Role::kLeader) {
    if (Now() < lease_end_) options_.on_lease(term_);
    Write();
  }
  executor_->PostAfter(kTick, [this] { Tick(); });
}

void LogActor::Observe() {
  busy_ = true;
  log_->ReadState(InTerm([this](const absl::StatusOr<LogState>& state) {
    busy_ = false;
    if (!state.ok()) return;
    if (first_ == LogPosition()) first_ = state->first;
    if (seen_.leader != state->leader || seen_.last != state->last) {
      seen_ = *state;
      seen_since_ = Now();
    } else if (Now() - seen_since_ >= kSilence) {
      seen_since_ = Now();
      return TakeOver(seen_);
    }
    if (options_.mistake == Mistake::kLeadsOnFreshState && runtime_.random().Below(40) == 0)
      return TakeOver(*state);
    Follow(/*for_lead=*/false);
  }));
}

void LogActor::Follow(bool for_lead) {
  if (first_ == LogPosition()) return;
  busy_ = true;
  log_->Read({.after = End(), .rows_max = 50},
             InTerm([this, for_lead](const absl::StatusOr<ReadResult>& read) {
               busy_ = false;
               if (!read.ok()) {
                 // Rows that were applied are gone: begin again.
                 if (absl::IsAborted(read.status())) history_.clear();
                 if (for_lead) StepDown();
                 return;
               }
               history_.insert(history_.end(), read->rows.begin(), read->rows.end());
               if (options_.mistake == Mistake::kTrustsShown) {
                 for (const LogRow& row : read->rows) options_.on_lasting(row);
               }
               if (read->more) return Follow(for_lead);
               if (!for_lead) return;
               if (End() != seen_.last) return StepDown();
               role_ = Role::kLeader;
               pending_.clear();
               Write();  // the leader's record: the first row of its term
             }));
}

void LogActor::TakeOver(const LogState& seen) {
  busy_ = true;
  log_->Lead({seen, options_.owner, "address"},
             InTerm([this](const absl::StatusOr<LeadResult>& led) {
               busy_ = false;
               if (!led.ok()) return;
               ++term_number_;
               ++terms_led_;
               term_ = led->term;
               first_ = led->first;
               seen_.last = led->last;
               role_ = Role::kElected;
               in_flight_ = 0;
               failed_ = conflict_ = false;
               lease_end_ = -absl::InfiniteDuration();
               Follow(/*for_lead=*/true);
             }));
}

void LogActor::Write() {
  if (failed_ || in_flight_ >= kInFlightMax || runtime_.random().Below(3) == 0) return;
  const LogPosition after = pending_.empty() ? End() : pending_.back().row.position;
  auto data =
      std::make_shared<const std::string>(absl::StrCat(options_.owner, " writes ", ++written_));
  pending_.push_back({NextRow(after, term_.epoch, std::move(data)), Now()});
  Send(pending_.size() - 1);
}

void LogActor::Send(size_t index) {
  Pending& pending = pending_[index];
  pending.began = Now();
  const LogPosition after = index == 0 ? End() : pending_[index - 1].row.position;
  ++in_flight_;
  log_->Append(
      {term_, after, {pending.row}},
      InTerm([this, row = pending.row](const AppendResult& result) { Answered(row, result); }));
}

void LogActor::Answered(const LogRow& row, const AppendResult& result) {
  --in_flight_;
  switch (result.outcome) {
    case Outcome::kAcknowledged:
      // This proves all rows before it as well.
      while (!pending_.empty() && pending_.front().row.position.seq <= row.position.seq) {
        const Pending lasting = pending_.front();
        pending_.pop_front();
        history_.push_back(lasting.row);
        Lasts(lasting.row, lasting.began);
      }
      break;
    case Outcome::kPresent:
      if (options_.mistake == Mistake::kTrustsPresent) options_.on_lasting(row);
      break;  // a further row will prove it
    case Outcome::kDeposed:
      return StepDown();
    case Outcome::kConflict:
      failed_ = conflict_ = true;
      break;
    case Outcome::kNotApplied:
    case Outcome::kUnknown:
      failed_ = true;
      break;
  }
  if (!failed_ || in_flight_ > 0) return;
  if (std::exchange(conflict_, false)) return Settle();
  Resend();
}

// The log does not end where it should.
void LogActor::Settle() {
  log_->ReadState(InTerm([this](const absl::StatusOr<LogState>& state) {
    if (!state.ok()) return Settle();
    if (state->leader != term_) return StepDown();
    // One of the own rows is its end: what is behind is missing there.
    const bool own = state->last == End() ||
                     std::any_of(pending_.begin(), pending_.end(), [&](const Pending& pending) {
                       return pending.row.position == state->last;
                     });
    if (!own) return StepDown();
    Resend();
  }));
}

void LogActor::Resend() {
  failed_ = false;
  for (size_t i = 0; i < pending_.size(); ++i) Send(i);
}

void LogActor::StepDown() {
  ++term_number_;
  role_ = Role::kFollower;
  busy_ = false;
  pending_.clear();
  seen_ = {};
  seen_since_ = Now();
}

void LogActor::Lasts(const LogRow& row, absl::Duration began) {
  ++lasting_;
  options_.on_lasting(row);
  lease_end_ = std::max(lease_end_, began + kLease);
}

}  // namespace escapement::kv
