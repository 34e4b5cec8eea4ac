#include "tests/simulation/actors/policy_user.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "escapement/v1/policy_service.pb.h"
#include "tests/simulation/actors/message_parts.h"

namespace escapement::simulation {

void PolicyUser::Next() {
  const absl::Duration rest = finishing_ ? absl::Milliseconds(500)
                              : calm_    ? absl::Seconds(1)
                                         : calls_.Between(options_.rest_min, options_.rest_max);
  calls_.After(rest, [this] {
    if (paused_) return Resume();
    if (finishing_) return Delete();
    if (calm_) return Next();
    switch (calls_.random().Below(8)) {
      case 0:
      case 1:
        return Pause();
      case 2:
      case 3:
        return options_.rates ? Override() : Update();
      default:
        return Update();
    }
  });
}

void PolicyUser::Known(absl::string_view call, const absl::Status& status,
                       std::function<void()> then) {
  if (status.ok()) {
    then();
  } else {
    complaints_.push_back(absl::StrCat(call, " of policy ", options_.id, " at ",
                                       absl::FormatTime(calls_.Now(), absl::UTCTimeZone()), ": ",
                                       status.ToString()));
  }
  Next();
}

void PolicyUser::DrawLimits(v1::ThrottlePolicy* policy) {
  sim::SimRandom& random = calls_.random();
  const uint64_t span = static_cast<uint64_t>(options_.limit_max - options_.limit_min + 1);
  policy->set_max_concurrent(options_.limit_min + static_cast<int64_t>(random.Below(span)));
  policy->set_max_per_second(0);
  if (random.Below(3) == 0) policy->set_fairness(v1::ThrottlePolicy::FIFO);
  if (!options_.rates) return;
  policy->set_retries(random.Below(3) == 0 ? v1::ThrottlePolicy::KEEP_TOKEN
                                           : v1::ThrottlePolicy::FREE_TOKEN);
  if (random.Below(2) == 0) {
    v1::ThrottlePolicy::PerKey& per_key = *policy->mutable_per_key();
    per_key.set_max_concurrent(options_.key_limit_min + static_cast<int64_t>(random.Below(8)));
    if (random.Below(3) == 0) {
      per_key.set_max_per_second(static_cast<double>(1 + random.Below(100)) / 2);
      per_key.set_burst(1 + static_cast<int64_t>(random.Below(5)));
    }
    if (random.Below(3) == 0) policy->set_fairness(v1::ThrottlePolicy::BY_KEY);
  }
  if (random.Below(3) != 0) return;
  policy->set_max_per_second(static_cast<double>(1 + random.Below(400)) / 2);
  policy->set_burst(1 + static_cast<int64_t>(random.Below(10)));
  if (random.Below(3) == 0 && policy->retries() != v1::ThrottlePolicy::KEEP_TOKEN)
    policy->set_max_concurrent(0);
}

void PolicyUser::Create() {
  v1::CreatePolicyRequest request;
  request.set_parent(calls_.parent());
  request.set_policy_id(options_.id);
  DrawLimits(request.mutable_policy());
  request.mutable_policy()->mutable_hold_timeout()->set_seconds(
      2 + static_cast<int64_t>(calls_.random().Below(4)));
  if (calls_.random().Below(4) == 0)
    request.mutable_policy()->set_on_expiry(v1::ThrottlePolicy::HOLD);
  request.set_request_id(calls_.NewRequestId());
  calls_.UntilKnown<v1::ThrottlePolicy>(
      [request](MasterApis& master, auto done) {
        master.policies->CreatePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<v1::ThrottlePolicy> answer) {
        Known("CreatePolicy", answer.status(), [this] { made_ = true; });
      });
}

void PolicyUser::Update() {
  v1::UpdatePolicyRequest request;
  request.mutable_policy()->set_name(name());
  DrawLimits(request.mutable_policy());
  for (const char* path :
       {"max_concurrent", "max_per_second", "burst", "per_key", "fairness", "retries"})
    request.mutable_update_mask()->add_paths(path);
  request.set_request_id(calls_.NewRequestId());
  calls_.Note(absl::StrCat("policy ", options_.id, " to ", request.policy().ShortDebugString()));
  calls_.UntilKnown<v1::ThrottlePolicy>(
      [request](MasterApis& master, auto done) {
        master.policies->UpdatePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<v1::ThrottlePolicy> answer) {
        Known("UpdatePolicy", answer.status(), [] {});
      });
}

// For some seconds, of the policy or of a key.
void PolicyUser::Override() {
  sim::SimRandom& random = calls_.random();
  v1::OverridePolicyRequest request;
  request.set_name(name());
  v1::PolicyOverride& override = *request.mutable_override();
  override.set_reason("for a while");
  if (random.Below(2) == 0) override.set_policy_key(PolicyKeyOf(random.Next()));
  override.set_max_concurrent(static_cast<int64_t>(random.Below(12)));
  if (random.Below(4) == 0) {
    override.set_max_per_second(static_cast<double>(1 + random.Below(100)));
    override.set_burst(1 + static_cast<int64_t>(random.Below(5)));
  }
  const int64_t ends = ToMicros(calls_.Now() + calls_.Between(absl::Seconds(3), absl::Seconds(12)));
  override.mutable_expire_time()->set_seconds(ends / 1'000'000);
  request.set_request_id(calls_.NewRequestId());
  calls_.Note(absl::StrCat("override of policy ", options_.id, ": ", override.ShortDebugString()));
  calls_.UntilKnown<v1::ThrottlePolicy>(
      [request](MasterApis& master, auto done) {
        master.policies->OverridePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<v1::ThrottlePolicy> answer) {
        // The policy has no limits for keys now, or the call took so long that its time has passed.
        const bool refused = absl::IsInvalidArgument(answer.status());
        Known("OverridePolicy", refused ? absl::OkStatus() : answer.status(), [] {});
      });
}

void PolicyUser::Pause() {
  v1::PausePolicyRequest request;
  request.set_name(name());
  request.set_request_id(calls_.NewRequestId());
  calls_.UntilKnown<v1::ThrottlePolicy>(
      [request](MasterApis& master, auto done) {
        master.policies->PausePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<v1::ThrottlePolicy> answer) {
        Known("PausePolicy", answer.status(), [this] { paused_ = true; });
      });
}

void PolicyUser::Resume() {
  v1::ResumePolicyRequest request;
  request.set_name(name());
  request.set_request_id(calls_.NewRequestId());
  calls_.UntilKnown<v1::ThrottlePolicy>(
      [request](MasterApis& master, auto done) {
        master.policies->ResumePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<v1::ThrottlePolicy> answer) {
        Known("ResumePolicy", answer.status(), [this] { paused_ = false; });
      });
}

void PolicyUser::Delete() {
  v1::DeletePolicyRequest request;
  request.set_name(name());
  request.set_request_id(calls_.NewRequestId());
  calls_.UntilKnown<google::protobuf::Empty>(
      [request](MasterApis& master, auto done) {
        master.policies->DeletePolicy(request, std::move(done));
      },
      [this](absl::StatusOr<google::protobuf::Empty> answer) {
        // Refused while events wait or are out under the policy: try again later.
        if (absl::IsFailedPrecondition(answer.status())) return Next();
        if (answer.ok()) {
          finished_ = true;
          return;
        }
        Known("DeletePolicy", answer.status(), [] {});
      });
}

}  // namespace escapement::simulation
