#include "services/handler/target_health/target_pace.h"

#include "absl/strings/str_cat.h"

namespace escapement::handler {

uint64_t TargetPace::Allowed(uint64_t out, absl::Duration now) const {
  if (state_ == State::kFree) return kAnyNumber;
  if (state_ == State::kFirst) {
    if (first_sent_.has_value() && now >= *first_sent_ + kFirstAnswerAwaited) return kAnyNumber;
  } else {
    if (now < until_) return 0;
    if (out >= out_max_ && now >= last_reserved_ + kPauseProbeEvery) return 1;
  }
  return out_max_ - std::min(out, out_max_);
}

void TargetPace::OnReserved(absl::Duration now) {
  const bool first = last_reserved_ < until_;
  if (first && now > until_ + kPauseProbeEvery) paused_since_.reset();
  last_reserved_ = now;
}

void TargetPace::OnAnswered(absl::Duration sent) {
  if (state_ == State::kFree) return;
  if (state_ == State::kPaused) {
    if (sent < until_) return;
    paused_since_.reset();
  }
  if (++out_max_ >= kSmallStartMax) state_ = State::kFree;
}

bool TargetPace::OnPauseAsked(absl::Duration pause, absl::Duration now) {
  const bool begins = !IsPaused(now);
  if (begins) until_ = now + pause;
  until_ = std::max(until_, now + pause);
  state_ = State::kPaused;
  out_max_ = 1;
  last_asked_ = now;
  if (!paused_since_.has_value()) paused_since_ = now;
  return begins;
}

void TargetPace::Cut(absl::Duration at) {
  until_ = std::min(until_, std::max(at, last_asked_ + kPauseCutMin));
}

void TargetPace::Reset() {
  if (state_ != State::kPaused) return;
  state_ = State::kFree;
  paused_since_.reset();
}

// Keys of policies are printable.
std::string GrantPauses::KeyOf(const Name& name) {
  return absl::StrCat(name.policy.bytes(), name.key, "\n", name.target_key);
}

void GrantPauses::Note(const Name& name, absl::Duration until, absl::Duration now) {
  std::string key = KeyOf(name);
  if (until_.size() >= kGrantPausesMax && !until_.contains(key)) {
    std::erase_if(until_, [now](const auto& pause) { return pause.second <= now; });
    if (until_.size() >= kGrantPausesMax) return;
  }
  absl::Duration& of_name = until_[std::move(key)];
  of_name = std::max(of_name, until);
}

bool GrantPauses::IsPaused(const Name& name, absl::Duration now) const {
  if (until_.empty()) return false;
  const auto pause = until_.find(KeyOf(name));
  return pause != until_.end() && now < pause->second;
}

}  // namespace escapement::handler
