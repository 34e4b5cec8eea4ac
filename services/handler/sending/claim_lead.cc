#include "services/handler/sending/claim_lead.h"

#include "services/handler/base/options.h"

namespace escapement::handler {
namespace {

constexpr absl::Duration kPeriod = absl::Minutes(5);
constexpr double kMargin = 1.25;  // times the slowest commit

absl::Time FloorToTick(absl::Time time, absl::Duration tick) {
  return absl::UnixEpoch() + absl::Floor(time - absl::UnixEpoch(), tick);
}

}  // namespace

void ClaimLead::Step(absl::Time now, absl::Duration elapsed) {
  const absl::Time tick = FloorToTick(now, kClaimTick);
  if (tick <= stepped_) return;
  if (elapsed >= period_ + kPeriod) {
    slowest_before_ = elapsed >= period_ + 2 * kPeriod ? absl::ZeroDuration() : slowest_;
    slowest_ = absl::ZeroDuration();
    period_ = elapsed;
  }
  const absl::Duration wanted = std::clamp(kMargin * std::max(slowest_, slowest_before_),
                                           kClaimLead, std::max(kClaimLead, kClaimLeadMax));
  const absl::Duration step = (tick - stepped_) / 2;
  lead_ = std::clamp(wanted, lead_ - step, lead_ + step);
  extra_share_ = extra() > absl::ZeroDuration() ? absl::FDivDuration(extra(), kClaimLeadMax) : 0;
  stepped_ = tick;
}

absl::Time ClaimLead::LatestDueClaimedAt(absl::Time now) const {
  return FloorToTick(now, kClaimTick) + lead_ + kClaimTick;
}

absl::Time ClaimLead::ClaimTimeOf(absl::Time due) const {
  const absl::Duration since = due - absl::UnixEpoch() - lead_ - kClaimTick;
  return absl::UnixEpoch() + absl::Ceil(since, kClaimTick);
}

}  // namespace escapement::handler
