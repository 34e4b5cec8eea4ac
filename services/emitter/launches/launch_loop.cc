#include "services/emitter/launches/launch_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/cron/launch_expression.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/tzdata/tzdata_table.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {

namespace {

Counter& SkippedFor(Metrics& metrics, const char* reason) {
  return *metrics.GetCounter("escapement_emitter_launches_skipped_total",
                             "Occurrences that were due but not launched.", {{"reason", reason}});
}

}  // namespace

LaunchMetrics::LaunchMetrics(Metrics& metrics)
    : launches(*metrics.GetCounter("escapement_emitter_launches_total",
                                   "Occurrences of schedules with an overlap policy launched.")),
      runs_cancelling(*metrics.GetCounter("escapement_emitter_launches_cancelling_total",
                                          "Launches that cancelled earlier runs.")),
      skipped_overlap(SkippedFor(metrics, "overlap")),
      skipped_deleted(SkippedFor(metrics, "deleted")),
      skipped_superseded(SkippedFor(metrics, "superseded")),
      refused(*metrics.GetCounter("escapement_emitter_launches_refused_total",
                                  "Decisions about launches that the store refused, because "
                                  "something had changed. They are made again.")),
      records_broken(*metrics.GetCounter("escapement_emitter_launch_records_broken_total",
                                         "Launch records that could not be read.")),
      waiting(*metrics.GetGauge("escapement_emitter_launches_waiting",
                                "Occurrences that are due and wait for the end of a run or of a "
                                "pause.")) {}

Counter& LaunchMetrics::Skipped(absl::string_view reason) {
  if (reason == "deleted") return skipped_deleted;
  if (reason == "superseded") return skipped_superseded;
  return skipped_overlap;
}

namespace {

using kv::ColumnFamily;
using Check = LaunchBatch::Check;
using Kind = LaunchDecision::Kind;

// Timers are at least this long: no step makes the next one due at once.
constexpr absl::Duration kTimerMin = absl::Microseconds(20);

// True if the due occurrences of several children of one schedule in one window may be emitted in
// two parts, the later part first.
bool MayBeOutOfOrder(const CachedDefinition& definition, absl::Time nominal) {
  const cron::Timetable* timetable = definition.timetable.get();
  if (timetable == nullptr || !timetable->calendar()) return false;
  const auto near = timetable->FirstAtOrAfter(nominal - kWindowMax);
  const auto next = timetable->FirstAfter(nominal);
  const bool alone = (!near.has_value() || near->instant >= nominal) &&
                     (!next.has_value() || next->instant > nominal + kWindowMax);
  return !alone && timetable->ChildPlaces().size() > 1;
}

}  // namespace

LaunchLoop::LaunchLoop(kv::KvClient& client, std::shared_ptr<Executor> executor,
                       LaunchMetrics& metrics, Options options)
    : client_(client),
      executor_(std::move(executor)),
      metrics_(metrics),
      options_(std::move(options)),
      cache_(client, executor_, [this] { OnFetched(); }),
      watch_(std::make_shared<LaunchWatch>(client, executor_, MakeObserver())),
      memory_(options_.launches_max,
              {.read_from = [this](uint16_t partition,
                                   const std::string& key) { watch_->ReadFrom(partition, key); },
               .on_left = [this](const Uid& uid, size_t left) { OnLeft(uid, left); }}) {}

LaunchWatch::Observer LaunchLoop::MakeObserver() {
  LaunchWatch::Observer observer;
  observer.has_room = [this](const std::string& key) {
    return memory_.RoomFrom(key, client_.NowLow());
  };
  observer.on_record = [this](const std::string& key, const std::string& value, kv::CommitSeq seq) {
    return Keep(key, value, seq);
  };
  observer.on_record_gone = [this](const LaunchKey& key, const std::string& bytes) {
    Forget(key.uid, bytes);
  };
  observer.on_mark = [this](const ActiveRun& run, const std::string& key, bool put,
                            kv::CommitSeq seq) { OnMark(run, key, put, seq); };
  observer.on_told = [this] { Step(); };
  observer.on_lost = [this] { memory_.Clear(); };
  return observer;
}

LaunchLoop::~LaunchLoop() { watch_->Stop(); }

void LaunchLoop::Start() {
  cache_.NotifyChanges([this](const Uid& uid) { OnStateChanged(uid); });
  cache_.Start();
  watch_->Start();
  SweepLater();
}

void LaunchLoop::Stop() {
  stopped_ = true;
  watch_->Stop();
  memory_.Clear();
}

// --- what there is ---

void LaunchLoop::AddPartition(uint32_t partition) {
  if (stopped_) return;
  DropPartition(partition);
  watch_->AddPartition(partition);
}

void LaunchLoop::DropPartition(uint32_t partition) {
  watch_->DropPartition(partition);
  memory_.DropPartition(partition);
}

void LaunchLoop::OnMark(const ActiveRun& run, const std::string& key, bool put, kv::CommitSeq seq) {
  marks_told_ = seq;
  const auto it = schedules_.find(run.uid);
  if (it == schedules_.end()) return;
  Schedule& schedule = it->second;
  schedule.marks_seq = seq;
  if (put) {
    if (schedule.active.empty()) schedule.active = key;
  } else if (schedule.active == key) {
    // Should there be others, the store will say so.
    schedule.active.clear();
    LookAgain(run.uid);
  }
}

bool LaunchLoop::Keep(const std::string& key_bytes, const std::string& value, kv::CommitSeq seq) {
  const auto key = DecodeLaunchKey(key_bytes);
  Launch launch;
  if (!key || !launch.record.ParseFromString(value)) {
    metrics_.records_broken.Increment();
    Log(LogLevel::kError, "emitter.launch", "a launch record cannot be read and stays");
    return true;
  }
  launch.key = *key;
  launch.bytes = value;
  launch.seq = seq;
  const LaunchMemory::Kept kept = memory_.Keep(key_bytes, std::move(launch));
  if (kept != LaunchMemory::Kept::kKept) return kept != LaunchMemory::Kept::kNoRoom;
  const auto [at, is_new] = schedules_.try_emplace(key->uid);
  Schedule& schedule = at->second;
  // A late answer says nothing new about marks that the watch has delivered already.
  if (is_new) schedule.marks_seq = marks_told_;
  schedule.records = CheckNotNull(memory_.Find(key->uid));
  // Fetches the state and definition now, so that they are in the cache when the record is due.
  JudgeQueueRow(cache_, key->uid, key->occurrence,
                RowToJudge(*key, schedule.records->launches.at(key_bytes).record));
  if (!schedule.busy) LookAt(key->uid, schedule, key->launch_time);
  return true;
}

void LaunchLoop::Forget(const Uid& uid, const std::string& key) {
  if (memory_.Forget(uid, key)) watch_->ReadOn();
}

void LaunchLoop::OnLeft(const Uid& uid, size_t left) {
  const auto it = schedules_.find(uid);
  CHECK(it != schedules_.end()) << "records of an unknown schedule are forgotten";
  Schedule& schedule = it->second;
  SetWaiting(schedule, std::min(schedule.waiting, left));
  if (left > 0) return;
  if (schedule.at.has_value()) CHECK_EQ(agenda_.erase({*schedule.at, uid}), 1u);
  fetching_.erase(uid);
  schedules_.erase(it);
}

// --- when to look at what ---

void LaunchLoop::LookAt(const Uid& uid, Schedule& schedule, absl::Time at) {
  if (schedule.at.has_value()) {
    if (*schedule.at <= at) return;
    CHECK_EQ(agenda_.erase({*schedule.at, uid}), 1u);
  }
  schedule.at = at;
  agenda_.insert({at, uid});
}

void LaunchLoop::LookAgain(const Uid& uid) {
  const auto it = schedules_.find(uid);
  if (it == schedules_.end() || it->second.busy) return;
  LookAt(uid, it->second, it->second.records->launches.begin()->second.key.launch_time);
}

// Due records stay for now.
void LaunchLoop::LookAtNext(const Uid& uid, Schedule& schedule, absl::Time after) {
  for (const auto& [bytes, launch] : schedule.records->launches) {
    if (launch.key.launch_time > after) return LookAt(uid, schedule, launch.key.launch_time);
  }
}

void LaunchLoop::SetWaiting(Schedule& schedule, size_t waiting) {
  TakeFrom(waiting_, schedule.waiting);
  waiting_ += waiting;
  schedule.waiting = waiting;
  metrics_.waiting.Set(static_cast<double>(waiting_));
}

void LaunchLoop::OnFetched() {
  if (stopped_) return;
  for (const Uid& uid : std::exchange(fetching_, {})) LookAgain(uid);
  Step();
}

void LaunchLoop::OnStateChanged(const Uid& uid) {
  if (stopped_ || !schedules_.contains(uid)) return;
  LookAgain(uid);
  Step();
}

void LaunchLoop::SweepLater() {
  executor_->PostAfter(kLaunchSweepEvery, [self = shared_from_this()] {
    if (self->stopped_) return;
    self->Sweep();
    self->SweepLater();
  });
}

// The cache reports no change of a schedule that it does not know.
void LaunchLoop::Sweep() {
  for (const auto& [uid, schedule] : schedules_) {
    if (schedule.waiting > 0 && cache_.StateIfKnown(uid) == nullptr) LookAgain(uid);
  }
  watch_->ReadOn();
  Step();
}

void LaunchLoop::PlanTimer() {
  if (stopped_ || committing_ || agenda_.empty()) return;
  const absl::Time at = agenda_.begin()->first;
  if (timer_ != 0 && timer_at_ <= at) return;
  if (timer_ != 0) executor_->Cancel(timer_);
  timer_at_ = at;
  const absl::Time now = client_.NowLow();
  const absl::Duration delay = now == absl::InfinitePast() ? kLaunchRetry : at - now;
  timer_ = executor_->PostAfter(std::max(delay, kTimerMin), [self = shared_from_this()] {
    self->timer_ = 0;
    self->Step();
  });
}

// --- what is to be done ---

void LaunchLoop::Step() {
  if (stopped_ || committing_) return;
  const absl::Time now = client_.NowLow();
  LaunchBatch batch(options_.layout, now);
  std::set<Uid> uids;
  const size_t groups_max =
      Perturb(client_.runtime(), Site::kLauncherDecidesOne) ? 1 : kLaunchesDecidedMax;
  while (!agenda_.empty() && agenda_.begin()->first <= now && batch.groups() < groups_max &&
         batch.mutations() < kLaunchMutationsMax) {
    const Uid uid = agenda_.begin()->second;
    agenda_.erase(agenda_.begin());
    Schedule& schedule = schedules_.at(uid);
    schedule.at.reset();
    if (!options_.leases.valid(schedule.records->partition)) {
      // Either the partition is about to be dropped, or a late renewal finds the lease still ours.
      LookAt(uid, schedule, now + kLaunchRetry);
    } else if (Decide(uid, schedule, now, batch)) {
      schedule.busy = true;
      uids.insert(uid);
    }
  }
  cache_.Fetch();
  if (!uids.empty()) Commit(std::move(batch), std::move(uids));
  PlanTimer();
}

bool LaunchLoop::Decide(const Uid& uid, Schedule& schedule, absl::Time now, LaunchBatch& batch) {
  std::vector<const Launch*> launches;
  std::vector<DueLaunch> due;
  // The store knows better.
  if (Perturb(client_.runtime(), Site::kLauncherAssumesNoRun)) schedule.active.clear();
  LaunchBatch::Basis basis{.active = schedule.active};
  bool paused = false;
  absl::Time superseded_end = absl::InfiniteFuture();
  for (const auto& [bytes, launch] : schedule.records->launches) {
    if (launch.key.launch_time > now || due.size() >= kLaunchesOfScheduleMax) break;
    const storage::v1::EventRecord row = RowToJudge(launch.key, launch.record);
    const RowJudgement judged = JudgeQueueRow(cache_, uid, launch.key.occurrence, row);
    if (judged.action == RowJudgement::Action::kFetch) {
      fetching_.insert(uid);
      return false;
    }
    paused |= judged.action == RowJudgement::Action::kPark;
    if (judged.superseded()) superseded_end = std::min(superseded_end, SupersededEndsAt(row));
    basis.state = judged.state;
    if (judged.definition != nullptr) basis.definition = judged.definition;
    launches.push_back(&launch);
    due.push_back(Judged(judged, row, now));
    if (launch.has_run) due.back().wish = DueLaunch::Wish::kDrop;
  }
  memory_.OnPaused(uid, paused);
  OverlapState state{.run_active = !schedule.active.empty()};
  if (basis.definition != nullptr) {
    state.policy = basis.definition->record->run_overlap();
    state.out_of_order = basis.definition->record->timing().jitter_micros() > 0 ||
                         schedule.records->put_off > 0 ||
                         !watch_->AllRead(schedule.records->partition) ||
                         (state.policy == storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS &&
                          MayBeOutOfOrder(*basis.definition, due.front().nominal_time));
  }
  const std::vector<LaunchDecision> decisions = PlanLaunches(due, state);
  const auto waiting = std::count_if(decisions.begin(), decisions.end(), [](const auto& decision) {
    return decision.kind == Kind::kWait;
  });
  SetWaiting(schedule, static_cast<size_t>(waiting));
  if (static_cast<size_t>(waiting) == decisions.size()) {
    LookAtNext(uid, schedule, now);
    if (superseded_end != absl::InfiniteFuture()) LookAt(uid, schedule, superseded_end);
    return false;
  }
  basis.lease = options_.leases.fence(schedule.records->partition);
  batch.Add(basis, launches, decisions);
  return true;
}

void LaunchLoop::Commit(LaunchBatch batch, std::set<Uid> uids) {
  committing_ = true;
  kv::Commit commit = batch.TakeCommit();
  if (!options_.tz_rev.empty()) commit.fence.push_back(tzdata::RevisionIs(options_.tz_rev));
  client_.CommitAsync(std::move(commit), executor_,
                      [self = shared_from_this(), decided = batch.TakeDecided(),
                       uids = std::move(uids)](absl::StatusOr<kv::CommitResult> result) {
                        if (!self->stopped_) self->OnCommitted(decided, uids, result);
                      });
}

void LaunchLoop::OnCommitted(const std::vector<LaunchBatch::Decided>& decided,
                             const std::set<Uid>& uids,
                             const absl::StatusOr<kv::CommitResult>& result) {
  committing_ = false;
  std::set<Uid> later;
  for (const Uid& uid : uids) {
    if (const auto it = schedules_.find(uid); it != schedules_.end()) it->second.busy = false;
    if (!result.ok()) later.insert(uid);
  }
  for (size_t i = 0; result.ok() && i < decided.size(); ++i) {
    if (result->verdicts[i].applied) {
      OnApplied(decided[i], result->seq);
    } else {
      metrics_.refused.Increment();
      if (!OnRefused(decided[i], result->verdicts[i].failed_condition))
        later.insert(decided[i].key.uid);
    }
  }
  for (const Uid& uid : uids) {
    const auto it = schedules_.find(uid);
    if (!later.contains(uid)) {
      LookAgain(uid);
    } else if (it != schedules_.end()) {
      LookAt(uid, it->second, client_.NowLow() + kLaunchRetry);
    }
  }
  Step();
}

void LaunchLoop::OnApplied(const LaunchBatch::Decided& decided, kv::CommitSeq seq) {
  const LaunchDecision& decision = decided.decision;
  switch (decision.kind) {
    case Kind::kLaunch:
    case Kind::kLaunchAlone:
    case Kind::kCancelPrevious: {
      metrics_.launches.Increment();
      if (decision.kind == Kind::kCancelPrevious) metrics_.runs_cancelling.Increment();
      const auto it = schedules_.find(decided.key.uid);
      if (it != schedules_.end() && it->second.marks_seq < seq) {
        it->second.marks_seq = seq;
        it->second.active = MarkOf(decided.key);
      }
      break;
    }
    case Kind::kSkip:
    case Kind::kSkipOverlap:
    case Kind::kSkipBehind:
      metrics_.Skipped(decision.reason).Increment();
      break;
    case Kind::kWait:
    case Kind::kDrop:
      break;
  }
  const std::string key = EncodeLaunchKey(decided.key);
  const Launch* launch = memory_.Find(decided.key.uid, key);
  // Otherwise the record has been written again.
  if (launch != nullptr && launch->seq <= seq) Forget(decided.key.uid, key);
}

bool LaunchLoop::OnRefused(const LaunchBatch::Decided& decided, uint16_t condition) {
  const Uid& uid = decided.key.uid;
  const std::string key = EncodeLaunchKey(decided.key);
  const auto it = schedules_.find(uid);
  if (it == schedules_.end() || condition >= decided.checks.size()) return true;
  Schedule& schedule = it->second;
  const Launch* launch = memory_.Find(uid, key);
  const bool same = launch != nullptr && launch->seq == decided.seq;
  switch (decided.checks[condition]) {
    case Check::kLease:
    case Check::kRow:  // until it is gone
      return false;
    case Check::kRecord:
      // If it is gone or written again, the watch reports it.
      if (same) Forget(uid, key);
      return true;
    case Check::kState:
      cache_.ForgetState(uid);
      return true;
    case Check::kRun:
      if (same) memory_.SetHasRun(uid, key);
      return true;
    case Check::kNoneActive:
      ReadActive(uid, schedule);
      return true;
    case Check::kActive:
      schedule.active.clear();
      return true;
    case Check::kWaiting:
      Forget(uid, decided.waiting);
      watch_->ReadFrom(decided.key.partition, decided.waiting);
      return true;
  }
  return true;
}

void LaunchLoop::ReadActive(const Uid& uid, Schedule& schedule) {
  if (std::exchange(schedule.busy, true)) return;
  kv::ScanRequest request;
  request.cf = ColumnFamily::kCheckpoints;
  request.begin = ActiveRunsOf(schedule.records->partition, uid);
  request.end = PrefixEnd(request.begin);
  request.limit = 1;
  request.keys_only = true;
  client_.Scan(std::move(request), executor_,
               [self = shared_from_this(), uid](absl::StatusOr<kv::ScanResult> result) {
                 const auto it = self->schedules_.find(uid);
                 if (self->stopped_ || it == self->schedules_.end()) return;
                 Schedule& schedule = it->second;
                 schedule.busy = false;
                 // Changes that the watch has reported since are newer.
                 if (result.ok() && result->seq >= schedule.marks_seq) {
                   schedule.active = result->entries.empty() ? "" : result->entries[0].key;
                 }
                 self->LookAgain(uid);
                 self->Step();
               });
}

}  // namespace escapement::emitter
