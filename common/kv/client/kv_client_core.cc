#include "common/kv/client/kv_client_core.h"

#include <algorithm>
#include <utility>

#include "common/base/proto_time.h"
#include "common/kv/engine/store_beat.h"
#include "common/kv/store_pace.h"
#include "common/runtime/perturb.h"

namespace escapement::kv {

namespace {

size_t BytesOf(const WatchBatch& batch) {
  size_t bytes = 128;
  for (const WatchedMutation& mutation : batch.mutations)
    bytes += mutation.key.size() + mutation.value.size() + 96;
  return bytes;
}

}  // namespace

void ClientWatch::Open(KvStore& store, uint64_t session) {
  absl::MutexLock lock(&mu_);
  if (opened_ || closed()) return;
  opened_ = true;
  if (excluding_own_) request_.excluded_session = session;
  auto self = shared_from_this();
  WatchObserver observer;
  observer.on_batch = [self](WatchBatch batch) { self->OnBatch(std::move(batch)); };
  observer.on_lagged = [self](absl::Status why) { self->Lag(std::move(why)); };
  inner_ = store.OpenWatch(request_, std::move(observer));
}

void ClientWatch::MoveEnd(size_t range, std::string end) {
  absl::MutexLock lock(&mu_);
  if (range > request_.then.size()) return;
  (range == 0 ? request_.end : request_.then[range - 1].end) = end;
  if (inner_ != nullptr) inner_->MoveEnd(range, std::move(end));
}

void ClientWatch::OnBatch(WatchBatch batch) {
  const size_t bytes = BytesOf(batch);
  absl::MutexLock lock(&posted_mu_);
  if (lagged_) return;
  if (posted_bytes_ + bytes > kPostedBytesMax || Perturb(runtime_, Site::kKvWatchLagged)) {
    lagged_ = true;
    on_->Post([self = shared_from_this()] {
      self->gate_.Lagged(absl::ResourceExhaustedError("the watcher does not keep up"));
    });
    return;
  }
  posted_bytes_ += bytes;
  // Post under the lock, so that batches are posted in commit order.
  on_->Post([self = shared_from_this(), bytes, batch = std::move(batch)]() mutable {
    {
      absl::MutexLock lock(&self->posted_mu_);
      self->posted_bytes_ -= bytes;
    }
    self->gate_.Batch(std::move(batch));
  });
}

void ClientWatch::Lag(absl::Status why) {
  absl::MutexLock lock(&posted_mu_);
  if (lagged_) return;
  lagged_ = true;
  on_->Post([self = shared_from_this(), why = std::move(why)] { self->gate_.Lagged(why); });
}

void ClientWatch::Close() {
  gate_.Close();
  Detach();
}

void ClientWatch::Detach() {
  // Destroy the watch after releasing the lock, because its end may wait for a running call.
  std::unique_ptr<Watch> ended;
  {
    absl::MutexLock lock(&mu_);
    opened_ = true;
    ended = std::move(inner_);
  }
}

namespace {

// The store's time may be slower than a monotonic clock of this machine by at most this: 500 ppm of
// slewing, and 250 ppm between the crystals of two machines. With a smaller allowance NowLow would
// pass store time during a long slew.
constexpr int64_t kSlowerMaxOf = 1333;  // 1 part in 1333 is 500 + 250 ppm

// The period of lease renewals, and the same beats.
constexpr absl::Duration kTellClockEvery = absl::Seconds(1);

// True if the commit may have been applied or not.
bool ResultUnknown(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
      return false;
    default:
      return true;
  }
}

template <typename T>
void PostAnswer(Executor& on, KvClient::Callback<T> done, absl::StatusOr<T> answer) {
  on.Post(
      [done = std::move(done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

}  // namespace

void KvClient::Core::OpenSession() {
  uint64_t incarnation = 0;
  CommitSeq seen = 0;
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return;
    incarnation = seen_incarnation_;
    seen = seen_;
  }
  store_.OpenSession(incarnation, seen,
                     [self = shared_from_this()](absl::StatusOr<SessionInfo> info) {
                       self->OnSession(std::move(info));
                     });
}

void KvClient::Core::OnSession(absl::StatusOr<SessionInfo> info) {
  std::vector<Closure> reads;
  std::vector<std::shared_ptr<ClientWatch>> watches;
  uint64_t session = 0;
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return;
    if (!info.ok()) {
      // Try again even if the store is behind `seen`: an operator may repair it, and the client can
      // do nothing else.
      timers_->PostAfter(Backoff(open_attempts_++),
                         [self = shared_from_this()] { self->OpenSession(); });
      return;
    }
    open_attempts_ = 0;
    if (info->incarnation != seen_incarnation_) seen_ = 0;
    seen_incarnation_ = info->incarnation;
    NotePace(info->store_time, info->pace);
    NoteTime(info->store_time, info->seq);
    session = session_ = info->session;
    oldest_ = next_ = 1;
    ++opening_;
    for (const auto& watch : watches_) {
      if (auto open = watch.lock()) watches.push_back(std::move(open));
    }
  }
  for (auto& watch : watches) watch->Open(store_, session);
  {
    absl::MutexLock lock(&mu_);
    --opening_;
    NumberWaiting();
    if (Ready()) reads = std::exchange(reads_waiting_, {});
  }
  for (Closure& read : reads) read();
  Flush();
}

void KvClient::Core::Stop() {
  std::vector<std::weak_ptr<ClientWatch>> watches;
  std::deque<Waiting> waiting;
  std::array<Outstanding, kSessionWindow> slots;
  std::vector<Closure> reads;
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    // Take them out under the lock and destroy them outside: a callback may own anything.
    watches.swap(watches_);
    waiting.swap(waiting_);
    slots.swap(slots_);
    reads.swap(reads_waiting_);
    outbox_.clear();
  }
  for (const auto& watch : watches) {
    if (auto open = watch.lock()) open->Detach();
  }
  timers_->Stop();
}

void KvClient::Core::Commit(kv::Commit commit, std::shared_ptr<Executor> on,
                            Callback<CommitResult> done) {
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return;
    if (waiting_.size() >= options_.waiting_commits_max) {
      if (commit.again_without_room > absl::ZeroDuration())
        return CommitLater(std::move(commit), std::move(on), std::move(done));
      PostAnswer<CommitResult>(*on, std::move(done),
                               absl::ResourceExhaustedError("too many commits wait for the store"));
      return;
    }
    waiting_.push_back({std::move(commit), std::move(on), std::move(done)});
    NumberWaiting();
  }
  Flush();
}

void KvClient::Core::CommitLater(kv::Commit commit, std::shared_ptr<Executor> on,
                                 Callback<CommitResult> done) {
  const absl::Duration delay = commit.again_without_room;
  timers_->PostAfter(delay, [self = shared_from_this(), commit = std::move(commit),
                             on = std::move(on), done = std::move(done)]() mutable {
    self->Commit(std::move(commit), std::move(on), std::move(done));
  });
}

void KvClient::Core::NumberWaiting() {
  // The next answer makes room; with one commit outstanding there will be an answer.
  const uint64_t window = Perturb(runtime_, Site::kKvOneCommitOutstanding) ? 1 : kSessionWindow;
  while (Ready() && unknown_ == 0 && !waiting_.empty() && next_ < oldest_ + window) {
    Waiting& waiting = waiting_.front();
    auto request = std::make_shared<CommitRequest>();
    request->session = session_;
    request->number = next_;
    request->now_low = NowLowLocked(runtime_.clock().Elapsed());
    request->fence = std::move(waiting.commit.fence);
    request->groups = std::move(waiting.commit.groups);
    SlotOf(next_) = Outstanding{request,
                                false,
                                seen_,
                                waiting.commit.again_without_room,
                                std::move(waiting.on),
                                std::move(waiting.done)};
    ++next_;
    outbox_.push_back(std::move(request));
    waiting_.pop_front();
  }
}

void KvClient::Core::Flush() {
  while (true) {
    std::shared_ptr<const CommitRequest> request;
    {
      absl::MutexLock lock(&mu_);
      // The thread that flushes also sends what others add. So commits are sent in the order of
      // their numbers.
      if (flushing_ || stopped_ || outbox_.empty()) return;
      flushing_ = true;
      request = std::move(outbox_.front());
      outbox_.pop_front();
    }
    const uint64_t session = request->session;
    const uint64_t number = request->number;
    store_.Commit(std::move(request), [self = shared_from_this(), session,
                                       number](absl::StatusOr<CommitResult> answer) {
      self->OnAnswer(session, number, std::move(answer));
    });
    absl::MutexLock lock(&mu_);
    flushing_ = false;
  }
}

void KvClient::Core::OnAnswer(uint64_t session, uint64_t number,
                              absl::StatusOr<CommitResult> answer) {
  bool reopen = false;
  {
    absl::MutexLock lock(&mu_);
    Outstanding& slot = SlotOf(number);
    if (stopped_ || session != session_ || slot.request == nullptr ||
        slot.request->number != number)
      return;
    if (ResultUnknown(answer.status())) {
      if (!slot.unknown) ++unknown_;
      slot.unknown = true;
      if (resend_timer_) return;
      resend_timer_ = true;
      timers_->PostAfter(Backoff(resends_++),
                         [self = shared_from_this()] { self->ResendUnknown(); });
      return;
    }
    if (answer.ok() && answer->seq < slot.seen) {
      // The store was restored from a copy under the same incarnation. It will also refuse a new
      // session.
      answer = absl::AbortedError("the store is behind what it has told");
    }
    resends_ = 0;
    if (slot.unknown) --unknown_;
    if (answer.ok()) {
      NotePace(answer->store_time, answer->pace);
      NoteTime(answer->store_time, answer->seq);
    }
    const bool refused = absl::IsAborted(answer.status());
    Outstanding answered = std::exchange(slot, {});
    while (oldest_ < next_ && SlotOf(oldest_).request == nullptr) ++oldest_;
    if (refused) {
      LoseSession();
      reopen = true;
    } else {
      NumberWaiting();
    }
    if (absl::IsResourceExhausted(answer.status()) &&
        answered.again_without_room > absl::ZeroDuration()) {
      CommitLater({.fence = answered.request->fence,
                   .groups = answered.request->groups,
                   .again_without_room = answered.again_without_room},
                  std::move(answered.on), std::move(answered.done));
    } else {
      PostAnswer<CommitResult>(*answered.on, std::move(answered.done), std::move(answer));
    }
  }
  if (reopen) OpenSession();
  Flush();
}

void KvClient::Core::LoseSession() {
  if (options_.on_session_lost && options_.session_executor != nullptr) {
    options_.session_executor->Post(
        [self = shared_from_this()] { self->options_.on_session_lost(); });
  }
  const absl::Status lost =
      absl::AbortedError("the store has refused the session; whether this applied is unknown");
  for (uint64_t number = oldest_; number < next_; ++number) {
    Outstanding slot = std::exchange(SlotOf(number), {});
    if (slot.request != nullptr) PostAnswer<CommitResult>(*slot.on, std::move(slot.done), lost);
  }
  for (Waiting& waiting : waiting_)
    PostAnswer<CommitResult>(*waiting.on, std::move(waiting.done), lost);
  waiting_.clear();
  outbox_.clear();
  unknown_ = 0;
  session_ = 0;
  for (const auto& watch : watches_) {
    auto open = watch.lock();
    if (open != nullptr && open->excluding_own())
      open->Lag(absl::AbortedError("the session was lost"));
  }
}

void KvClient::Core::ResendUnknown() {
  {
    absl::MutexLock lock(&mu_);
    resend_timer_ = false;
    if (stopped_) return;
    for (uint64_t number = oldest_; number < next_; ++number) {
      Outstanding& slot = SlotOf(number);
      if (slot.request == nullptr || !slot.unknown) continue;
      slot.unknown = false;
      --unknown_;
      // A store that was away decides it at the time of this try, not of the first one.
      auto again = std::make_shared<CommitRequest>(*slot.request);
      again->now_low = NowLowLocked(runtime_.clock().Elapsed());
      slot.request = std::move(again);
      outbox_.push_back(slot.request);
    }
    NumberWaiting();
  }
  Flush();
}

template <typename T>
void KvClient::Core::StartRead(std::shared_ptr<Read<T>> read) {
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return;
    if (!Ready()) {
      reads_waiting_.push_back([this, read] { StartRead(read); });
      return;
    }
  }
  read->send(store_, [self = shared_from_this(), read](absl::StatusOr<T> answer) {
    self->OnRead(read, std::move(answer));
  });
}

template <typename T>
void KvClient::Core::OnRead(std::shared_ptr<Read<T>> read, absl::StatusOr<T> answer) {
  absl::MutexLock lock(&mu_);
  if (stopped_) return;
  const bool unanswered = ResultUnknown(answer.status()) && !absl::IsOutOfRange(answer.status());
  if (unanswered || absl::IsResourceExhausted(answer.status()) ||
      Perturb(runtime_, Site::kKvReadAnswerLost)) {
    timers_->PostAfter(Backoff(read->attempts++),
                       [self = shared_from_this(), read] { self->StartRead(read); });
    return;
  }
  if (answer.ok()) NoteTime(answer->store_time, answer->seq);
  PostAnswer<T>(*read->on, std::move(read->done), std::move(answer));
}

std::shared_ptr<ClientWatch> KvClient::Core::OpenWatch(WatchRequest request, bool excluding_own,
                                                       std::shared_ptr<Executor> on,
                                                       WatchObserver observer) {
  auto watch = std::make_shared<ClientWatch>(runtime_, std::move(request), excluding_own,
                                             std::move(on), std::move(observer));
  uint64_t session = 0;
  {
    absl::MutexLock lock(&mu_);
    if (stopped_) return watch;
    std::erase_if(watches_, [](const auto& known) { return known.expired(); });
    watches_.push_back(watch);
    session = session_;
  }
  if (session != 0) watch->Open(store_, session);
  return watch;
}

void KvClient::Core::TellClock() {
  const Clock& clock = runtime_.clock();
  const std::string boot_id = clock.BootId();
  if (boot_id.empty()) return;
  store_.AskClock({.host = HostClock{boot_id, clock.WallNow()}},
                  [self = shared_from_this()](absl::StatusOr<ClockState> state) {
                    if (!state.ok()) return;
                    absl::MutexLock lock(&self->mu_);
                    if (self->stopped_) return;
                    self->NotePace(state->store_time, state->pace);
                    self->NoteTime(state->store_time, 0);
                  });
  timers_->PostAfter(UntilBeat(NowLow(), kTellClockEvery, absl::ZeroDuration()),
                     [self = shared_from_this()] { self->TellClock(); });
}

void KvClient::Core::NotePace(absl::Time store_time, const Pace& pace) {
  // Store time + slowed always advances at full pace. So it gives the order of answers and the
  // measure for the bound.
  const absl::Time told_at = store_time + pace.slowed;
  if (told_at < pace_told_at_) return;  // a later answer overtook this one
  pace_told_at_ = told_at;
  if (pace == pace_) return;
  pace_ = pace;
  if (time_base_ == absl::InfinitePast()) return;
  // Up to this answer, store time has passed at the pace that the answer has, even if this client
  // missed the announcement. After the answer it passes as announced.
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  const absl::Time full =
      std::max(time_base_ + slowed_at_base_ + PassedSinceBase(elapsed), told_at);
  time_base_ = AtSlowPace(store_time, full - told_at, pace_.slow_from);
  time_base_elapsed_ = elapsed;
  slowed_at_base_ = full - time_base_;
}

void KvClient::Core::NoteTime(absl::Time store_time, CommitSeq seq) {
  seen_ = std::max(seen_, seq);
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  if (store_time <= NowLowLocked(elapsed)) return;
  time_base_ = store_time;
  time_base_elapsed_ = elapsed;
  slowed_at_base_ = pace_.slowed;
}

absl::Duration KvClient::Core::PassedSinceBase(absl::Duration elapsed) const {
  const int64_t since = absl::ToInt64Nanoseconds(elapsed - time_base_elapsed_);
  return absl::Nanoseconds(since <= 0 ? 0 : since - since / kSlowerMaxOf - 1);
}

absl::Time KvClient::Core::NowLowLocked(absl::Duration elapsed) const {
  if (time_base_ == absl::InfinitePast()) return time_base_;
  return FromMicros(ToMicros(AtSlowPace(time_base_, PassedSinceBase(elapsed), pace_.slow_from)));
}

absl::Time KvClient::Core::NowLow() const {
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  absl::MutexLock lock(&mu_);
  return NowLowLocked(elapsed);
}

bool KvClient::Core::Connected() const {
  absl::MutexLock lock(&mu_);
  return session_ != 0;
}

absl::Duration KvClient::Core::Backoff(int attempts) const {
  const absl::Duration full =
      std::min(options_.resend_min * (int64_t{1} << std::min(attempts, 20)), options_.resend_max);
  // Half of the backoff is random, so that clients of a restarted store do not all call at once.
  return full / 2 + full / 2 * (static_cast<double>(runtime_.random().Below(1 << 20)) / (1 << 20));
}

template void KvClient::Core::StartRead(std::shared_ptr<Read<GetResult>> read);
template void KvClient::Core::StartRead(std::shared_ptr<Read<ScanResult>> read);

}  // namespace escapement::kv
