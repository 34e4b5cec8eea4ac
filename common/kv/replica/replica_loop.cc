#include "common/kv/replica/replica_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace escapement::kv {
namespace {

// How often a leader looks whether another one leads, beside the answers to its appends.
constexpr absl::Duration kLeaderPoll = absl::Milliseconds(500);
// How often a replica that refuses looks whether the log has been repaired.
constexpr absl::Duration kRefusingPoll = absl::Milliseconds(500);

std::string CheckpointFolder(const ReplicaCopy& copy) {
  return absl::StrCat(copy.scratch(), "/checkpoint");
}
std::string RestoreFolder(const ReplicaCopy& copy) {
  return absl::StrCat(copy.scratch(), "/restore");
}

}  // namespace

ReplicaLoop::ReplicaLoop(Runtime& runtime, SharedLog& log, ReplicaCopy& copy,
                         ReplicaSnapshots& snapshots, Options options)
    : clock_(runtime.clock()),
      runtime_(runtime),
      log_(log),
      copy_(copy),
      snapshots_(snapshots),
      options_(std::move(options)),
      executor_(runtime.NewExecutor("replica")) {}

ReplicaLoop::~ReplicaLoop() { Stop(); }

void ReplicaLoop::Start() {
  executor_->Post([this] {
    // Also while the log does not answer an operator can see what this replica has.
    if (const auto place = copy_.place(); place.has_value()) NoteCopy(*place);
    ReadState();
    CheckSnapshots();
    if (options_.report) Report();
  });
}

void ReplicaLoop::Report() {
  // A report that fails is replaced by the next one.
  log_.PutReport(options_.name, options_.report(status()), [this, executor = executor_](auto) {
    executor->PostAfter(kReportInterval, [this] { Report(); });
  });
}

void ReplicaLoop::Stop() {
  std::shared_ptr<LeaderLog> leading;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(stopped_, true)) return;
    leading = leader_log_;
  }
  snapshots_.Stop();
  // The executor may be waiting for an append.
  if (leading != nullptr) leading->Stop();
  executor_->Stop();
  if (serving_) copy_.StopLeading();
}

ReplicaStatus ReplicaLoop::status() const {
  absl::MutexLock lock(&mu_);
  ReplicaStatus status = status_;
  if (leader_log_ != nullptr) {
    const LogPlace place = leader_log_->place();
    status.applied_seq = place.position.seq;
    status.proven_seq = place.position.seq;
    status.log_bytes = place.log_bytes;
    status.log_seq = std::max(status.log_seq, place.position.seq);
    const auto renewed_at = leader_log_->lease().renewed_at();
    if (status.role == ReplicaRole::kLeader && renewed_at.has_value())
      status.unacknowledged = clock_.Elapsed() - *renewed_at;
  }
  return status;
}

std::shared_ptr<LeaderLog> ReplicaLoop::leader_log() const {
  absl::MutexLock lock(&mu_);
  return leader_log_;
}

void ReplicaLoop::Note(const absl::Status& problem) {
  absl::MutexLock lock(&mu_);
  if (problem.code() != status_.problem.code() && !problem.ok())
    Log(LogLevel::kWarning, "replica", "something is in the way",
        {{"problem", problem.ToString()}});
  status_.problem = problem;
}

void ReplicaLoop::NoteCopy(const LogPlace& place) {
  absl::MutexLock lock(&mu_);
  status_.applied_seq = place.position.seq;
  status_.proven_seq = place.proven.seq;
  status_.log_bytes = place.log_bytes;
}

void ReplicaLoop::SetRole(ReplicaRole role) {
  if (role == role_) return;
  role_ = role;
  {
    absl::MutexLock lock(&mu_);
    status_.role = role;
  }
  if (options_.on_role) options_.on_role(role);
}

void ReplicaLoop::PollAfter(absl::Duration delay) {
  poll_timer_ = executor_->PostAfter(delay, [this] {
    poll_timer_ = 0;
    ReadState();
  });
}

void ReplicaLoop::ReadState() {
  log_.ReadState([this, executor = executor_](absl::StatusOr<LogState> state) {
    executor->Post([this, state = std::move(state)] { OnState(state); });
  });
}

void ReplicaLoop::OnState(const absl::StatusOr<LogState>& state) {
  if (!state.ok()) {
    timer_.ObserveNothing();
    Note(state.status());
    return PollAfter(kPollInterval);
  }
  timer_.Observe(*state, clock_.Elapsed());
  state_ = *state;
  {
    absl::MutexLock lock(&mu_);
    status_.leader = state->leader;
    status_.leader_address = state->address;
    status_.log_seq = state->last.seq;
  }
  switch (role_) {
    case ReplicaRole::kRefusing:
      // A leader's copy may lack the last rows that it has answered, so it cannot judge the log.
      if (has_lost_) return;
      return Follow(*state);
    case ReplicaRole::kStarting:
      SetRole(ReplicaRole::kFollower);
      [[fallthrough]];
    case ReplicaRole::kFollower:
      return Follow(*state);
    case ReplicaRole::kLeader:
      Note(absl::OkStatus());
      [[fallthrough]];
    case ReplicaRole::kCandidate: {
      const auto leading = leader_log();
      if (leading != nullptr && state->leader != leading->term()) leading->Depose();
      return PollAfter(kLeaderPoll);
    }
  }
}

void ReplicaLoop::Follow(const LogState& state) {
  if (restoring_) return PollAfter(kPollInterval);
  // An attempt of unknown result has begun a term after all.
  if (state.leader.owner == options_.owner && state.leader.epoch == attempted_epoch_)
    return OnLed({state.leader, state.first, state.last});
  const std::optional<LogPlace> place = copy_.place();
  if (place.has_value()) NoteCopy(*place);
  if (state.leader.epoch == 0) {
    if (!place.has_value()) return TryToLead(state);
    return Refuse(absl::DataLossError(
        "the shared log is new, but the data folder has a copy of another one: check the log's "
        "address, restore its database, or start with --accept_loss"));
  }
  if (!place.has_value()) return BeginCopy();
  if (place->genesis != 0 && place->genesis != state.first.chain) {
    return Refuse(absl::DataLossError(
        "the data folder belongs to another shared log than the one in this database: check "
        "--replicate_through, --replicated_log and --data_dir, or start with --accept_loss"));
  }
  const absl::Duration now = clock_.Elapsed();
  const bool whole = place->position == state.last;
  if (whole) {
    behind_since_.reset();
    foreign_since_.reset();
    // The log has the copy's history, so it is the copy's log.
    Note(place->genesis == 0 ? copy_.NameLog(state.first.chain) : absl::OkStatus());
    SetRole(ReplicaRole::kFollower);
  } else if (!behind_since_.has_value()) {
    behind_since_ = now;
  }
  {
    absl::MutexLock lock(&mu_);
    status_.behind = whole ? absl::ZeroDuration() : now - *behind_since_;
  }
  if (!whole) return ReadRows();
  if (timer_.MayLead(*place, now)) return TryToLead(state);
  PollAfter(kPollInterval);
}

void ReplicaLoop::BeginCopy() {
  restoring_ = true;
  snapshots_.Restore(RestoreFolder(copy_), [this, executor = executor_](auto found) {
    executor->Post([this, found = std::move(found)] { OnRestored(found); });
  });
  PollAfter(kPollInterval);
}

void ReplicaLoop::OnRestored(const absl::StatusOr<ReplicaSnapshots::Found>& found) {
  absl::Status status = found.status();
  if (status.ok() && found->has_value()) {
    status = copy_.Adopt(RestoreFolder(copy_));
  } else if (status.ok()) {
    status = copy_.Begin(state_.first);
  }
  Note(status);
  // After a failure it tries again, but not at once.
  executor_->PostAfter(status.ok() ? absl::ZeroDuration() : kPatience,
                       [this] { restoring_ = false; });
}

void ReplicaLoop::CheckSnapshots() {
  snapshots_.Find([this, executor = executor_](auto newest) {
    executor->Post([this, newest = std::move(newest)] { OnNewest(newest); });
  });
}

void ReplicaLoop::OnNewest(const absl::StatusOr<ReplicaSnapshots::Found>& newest) {
  const auto check_again = [this] {
    executor_->PostAfter(options_.snapshot_check, [this] { CheckSnapshots(); });
  };
  if (newest.ok() && newest->has_value()) {
    absl::MutexLock lock(&mu_);
    status_.snapshot_seq = (*newest)->place.position.seq;
    status_.snapshot_time = (*newest)->store_time;
  }
  if (!newest.ok() || !SnapshotIsDue(*newest)) return check_again();
  const std::string folder = CheckpointFolder(copy_);
  if (absl::Status status = copy_.MakeCheckpoint(folder); !status.ok()) {
    Log(LogLevel::kError, "replica", "cannot make a checkpoint", {{"error", status.ToString()}});
    return check_again();
  }
  snapshots_.Upload(folder, [this, executor = executor_, check_again](auto uploaded) {
    if (!uploaded.ok() && !absl::IsCancelled(uploaded.status())) {
      Log(LogLevel::kWarning, "replica", "a snapshot failed",
          {{"error", uploaded.status().ToString()}});
    }
    executor->Post([this, check_again, uploaded = std::move(uploaded)] {
      if (uploaded.ok()) uploaded_seq_ = uploaded->place.position.seq;
      check_again();
    });
  });
}

bool ReplicaLoop::SnapshotIsDue(const ReplicaSnapshots::Found& newest) {
  LogPlace place;
  const LogPlace since = newest.has_value() ? newest->place : LogPlace();
  // Two replicas have no table files in common. So the one that made the last snapshot makes the
  // next one, too, if it can: it sends only what is new.
  double share =
      since.position.seq == uploaded_seq_ ? 1 : 1.125;  // the limits are multiplied by it
  if (const auto leading = leader_log(); leading != nullptr) {
    if (!serving_) return false;
    place = leading->place();
    share += 0.25;
  } else {
    const std::optional<LogPlace> copied = copy_.place();
    if (role_ != ReplicaRole::kFollower || restoring_ || !copied.has_value()) return false;
    place = *copied;
  }
  if (place.position.seq <= since.position.seq || place.position.seq == 0) return false;
  const uint64_t grown = place.log_bytes - std::min(place.log_bytes, since.log_bytes);
  if (static_cast<double>(grown) >= share * static_cast<double>(options_.snapshot_log_bytes))
    return true;
  // Without a snapshot the log alone is as good.
  return newest.has_value() &&
         copy_.store_time() - newest->store_time >= share * options_.snapshot_age;
}

void ReplicaLoop::ReadRows() {
  ReadRequest request;
  request.after = copy_.place()->position;
  read_at_ = clock_.Elapsed();
  log_.Read(request, [this, executor = executor_](absl::StatusOr<ReadResult> result) {
    executor->Post([this, result = std::move(result)]() mutable { OnRows(std::move(result)); });
  });
}

void ReplicaLoop::OnRows(absl::StatusOr<ReadResult> result) {
  if (!result.ok()) {
    switch (result.status().code()) {
      case absl::StatusCode::kAborted:
      case absl::StatusCode::kOutOfRange:
      case absl::StatusCode::kDataLoss:
        return OnForeignRows(result.status());
      default:
        Note(result.status());
        return PollAfter(kPollInterval);
    }
  }
  foreign_since_.reset();
  SetRole(ReplicaRole::kFollower);
  if (!result->rows.empty()) {
    if (absl::Status status = copy_.Apply(result->rows); !status.ok()) {
      if (absl::IsOutOfRange(status)) return OnForeignRows(status);
      // The rows are as their leader wrote them: this program cannot read them. Another attempt
      // helps only if the copy was at fault.
      Note(status);
      return PollAfter(kSilenceMax);
    }
  }
  if (result->more) return ReadRows();
  // Under load each look finds a newer row. But the rows of the time of the read are applied.
  if (behind_since_.has_value()) behind_since_ = read_at_;
  const std::optional<LogPlace> place = copy_.place();
  const bool handed_over = place.has_value() && place->kind == RecordKind::kHandover;
  PollAfter(handed_over && !result->rows.empty() ? absl::ZeroDuration() : kPollInterval);
}

void ReplicaLoop::OnForeignRows(const absl::Status& why) {
  const absl::Duration now = clock_.Elapsed();
  if (!foreign_since_.has_value()) foreign_since_ = now;
  const bool refuses = role_ == ReplicaRole::kRefusing;
  if (!refuses) Note(why);
  if (absl::IsAborted(why) && now - *foreign_since_ < kPatience) return PollAfter(kPollInterval);
  const LogPlace place = *copy_.place();
  const LogPosition proven = place.proven;
  // While this replica refuses, another one may bring the log far beyond this copy, and trim it.
  if (!refuses && (!absl::IsAborted(why) || proven.seq == 0))
    return place.position.seq == 0 ? DropCopy(why) : SetCopyAside(why);
  log_.Read({.after = proven, .rows_max = 1, .bytes_max = 1},
            [this, executor = executor_, why](const absl::StatusOr<ReadResult>& read) {
              executor->Post([this, why, status = read.status()] { OnProvenRead(why, status); });
            });
}

void ReplicaLoop::OnProvenRead(const absl::Status& why, const absl::Status& proven) {
  if (proven.ok()) return DropCopy(why);
  if (!absl::IsAborted(proven) && !absl::IsOutOfRange(proven)) {
    Note(proven);
    return PollAfter(kPollInterval);
  }
  Refuse(absl::DataLossError(
      "the shared log lacks acknowledged commits that this replica has: restore a newer copy of "
      "its database, or start every replica with --accept_loss"));
}

void ReplicaLoop::Refuse(const absl::Status& why) {
  if (options_.accept_loss) {
    Note(copy_.SetAside());
    foreign_since_.reset();
    return PollAfter(kPollInterval);
  }
  if (role_ != ReplicaRole::kRefusing) {
    Log(LogLevel::kError, "replica", "serves nothing until the log is repaired",
        {{"why", why.ToString()}});
  }
  Note(why);
  SetRole(ReplicaRole::kRefusing);
  PollAfter(kRefusingPoll);
}

void ReplicaLoop::DropCopy(const absl::Status& why) {
  Log(LogLevel::kWarning, "replica",
      "the copy does not match the log: it is dropped and made again", {{"why", why.ToString()}});
  foreign_since_.reset();
  if (absl::Status status = copy_.Drop(); !status.ok()) Note(status);
  PollAfter(kPollInterval);
}

void ReplicaLoop::SetCopyAside(const absl::Status& why) {
  Log(LogLevel::kWarning, "replica",
      "the log does not show whether it has all that the copy has: the copy is kept aside and made "
      "again",
      {{"why", why.ToString()}});
  foreign_since_.reset();
  Note(copy_.SetAside());
  PollAfter(kPollInterval);
}

void ReplicaLoop::TryToLead(const LogState& state) {
  SetRole(ReplicaRole::kCandidate);
  end_known_since_ = timer_.end_known_since();
  attempted_epoch_ = state.leader.epoch + 1;
  log_.Lead({state, options_.owner, options_.address},
            [this, executor = executor_](absl::StatusOr<LeadResult> result) {
              executor->Post([this, result = std::move(result)] {
                if (result.ok()) return OnLed(*result);
                // Another one was faster, or the result is unknown: the state will tell.
                SetRole(ReplicaRole::kFollower);
                PollAfter(absl::IsAborted(result.status()) ? absl::ZeroDuration() : kPollInterval);
              });
            });
}

void ReplicaLoop::OnLed(const LeadResult& result) {
  attempted_epoch_ = 0;
  std::optional<LogPlace> place = copy_.place();
  absl::Status status;
  if (!place.has_value() && result.last.seq == 0) {
    status = copy_.Begin(result.first);
    if (status.ok()) place = copy_.place();
  }
  if (!status.ok() || !place.has_value() || place->position != result.last) {
    // The term ends by its silence.
    Note(status);
    SetRole(ReplicaRole::kFollower);
    return PollAfter(kPollInterval);
  }
  SetRole(ReplicaRole::kCandidate);
  const uint64_t epoch = result.term.epoch;
  LeaderLog::Options options;
  options.term = result.term;
  options.place = *place;
  options.place.genesis = result.first.chain;
  options.ended = [this, executor = executor_, epoch](absl::Status why) {
    executor->Post([this, epoch, why = std::move(why)] { OnEnded(epoch, why); });
  };
  auto leading = std::make_shared<LeaderLog>(runtime_, log_, std::move(options));
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return leading->Stop();
    leader_log_ = leading;
  }
  std::string record = copy_.LeaderRecord();
  leading->Append(record, [this, executor = executor_, epoch,
                           record](absl::StatusOr<LogPlace> appended) mutable {
    executor->Post([this, epoch, record = std::move(record), status = appended.status()]() mutable {
      OnLeaderRecord(epoch, std::move(record), status);
    });
  });
  PollAfter(kLeaderPoll);
}

void ReplicaLoop::OnLeaderRecord(uint64_t epoch, std::string record,
                                 const absl::Status& acknowledged) {
  const auto leading = leader_log();
  if (leading == nullptr || leading->term().epoch != epoch || !acknowledged.ok()) return;
  const LogRow row = NextRow(copy_.place()->position, epoch,
                             std::make_shared<const std::string>(std::move(record)));
  if (absl::Status status = copy_.Apply({row}); !status.ok()) return OnStarted(epoch, status);
  serving_ = true;
  copy_.StartLeading(
      leading, clock_.Elapsed() - end_known_since_,
      [this, executor = executor_, epoch](absl::Status started) {
        executor->Post([this, epoch, started = std::move(started)] { OnStarted(epoch, started); });
      });
}

void ReplicaLoop::OnStarted(uint64_t epoch, const absl::Status& status) {
  const auto leading = leader_log();
  if (leading == nullptr || leading->term().epoch != epoch) return;
  if (!status.ok()) {
    Note(status);
    // If the log has ended, OnEnded comes as well and finds another role.
    return StepDown();
  }
  Log(LogLevel::kInfo, "replica", "leads",
      {{"epoch", epoch}, {"row", leading->place().position.seq}});
  Note(absl::OkStatus());
  SetRole(ReplicaRole::kLeader);
}

void ReplicaLoop::OnEnded(uint64_t epoch, const absl::Status& why) {
  const auto leading = leader_log();
  if (leading == nullptr || leading->term().epoch != epoch) return;
  Log(LogLevel::kWarning, "replica", "leads no more", {{"why", why.ToString()}});
  StepDown();
  Note(why);
  if (absl::IsDataLoss(why)) {
    Log(LogLevel::kError, "replica", "serves nothing until an operator restarts it",
        {{"why", why.ToString()}});
    has_lost_ = true;
    SetRole(ReplicaRole::kRefusing);
  }
}

void ReplicaLoop::StepDown() {
  const auto leading = leader_log();
  handing_over_ = false;
  if (std::exchange(serving_, false)) copy_.StopLeading();
  if (leading != nullptr) leading->Stop();
  {
    absl::MutexLock lock(&mu_);
    leader_log_ = nullptr;
  }
  SetRole(ReplicaRole::kFollower);
  // Learns soon who leads now.
  if (poll_timer_ != 0 && executor_->Cancel(poll_timer_)) PollAfter(absl::ZeroDuration());
}

void ReplicaLoop::HandOver(Closure done) {
  executor_->Post([this, done = std::move(done)]() mutable {
    const auto leading = leader_log();
    if (role_ != ReplicaRole::kLeader || leading == nullptr || handing_over_) return done();
    handing_over_ = true;
    copy_.WriteHandover([this, executor = executor_, epoch = leading->term().epoch,
                         done = std::move(done)]() mutable {
      executor->Post([this, epoch, done = std::move(done)]() mutable {
        OnHandedOver(epoch);
        done();
      });
    });
  });
}

void ReplicaLoop::OnHandedOver(uint64_t epoch) {
  const auto leading = leader_log();
  // Another one has deposed it first.
  if (leading == nullptr || leading->term().epoch != epoch) return;
  timer_.NoteGivenUp(epoch);
  StepDown();
  Log(LogLevel::kInfo, "replica", "has handed over");
}

}  // namespace escapement::kv
