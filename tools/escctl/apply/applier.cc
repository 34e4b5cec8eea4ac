#include "tools/escctl/apply/applier.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/apply/manifest.h"

namespace escapement::escctl {
namespace {

constexpr int kTriesMax = 3;  // if others change the resource at the same time

std::string ParentOf(const std::string& name) {
  return name.substr(0, name.find('/', name.find('/') + 1));
}

struct ScheduleApi {
  using Message = v1::Schedule;
  using Stub = v1::ScheduleService::Stub;

  explicit ScheduleApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetScheduleRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetSchedule, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreateScheduleRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_schedule_id(IdOf(wanted.name()));
    *request.mutable_schedule() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreateSchedule, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdateScheduleRequest request;
    *request.mutable_schedule() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    return session.Call(&Stub::UpdateSchedule, request, message);
  }
  static std::vector<std::string> WarningsOf(const Message& message) {
    return {message.warnings().begin(), message.warnings().end()};
  }

  Session& session;
};

struct PolicyApi {
  using Message = v1::ThrottlePolicy;
  using Stub = v1::PolicyService::Stub;

  explicit PolicyApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetPolicyRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetPolicy, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreatePolicyRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_policy_id(IdOf(wanted.name()));
    *request.mutable_policy() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreatePolicy, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdatePolicyRequest request;
    *request.mutable_policy() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    return session.Call(&Stub::UpdatePolicy, request, message);
  }
  static std::vector<std::string> WarningsOf(const Message&) { return {}; }

  Session& session;
};

template <typename Message>
Message WithoutServerFields(Message message) {
  ClearServerFields(message);
  return message;
}

}  // namespace

absl::string_view EffectName(ApplyEffect effect) {
  switch (effect) {
    case ApplyEffect::kCreated:
      return "created";
    case ApplyEffect::kConfigured:
      return "configured";
    case ApplyEffect::kUnchanged:
      return "unchanged";
    case ApplyEffect::kPruned:
      return "pruned";
  }
  return "";
}

template <typename Api>
bool Applier::RefersToPlannedPolicy(const grpc::Status& status,
                                    const typename Api::Message& wanted) const {
  if constexpr (std::is_same_v<Api, ScheduleApi>) {
    // The server looks the policy up last, so everything else is valid.
    return dry_run_ && ErrorReason(FromGrpcStatus(status)) == "POLICY_NOT_FOUND" &&
           std::find(planned_policies_.begin(), planned_policies_.end(), wanted.policy()) !=
               planned_policies_.end();
  }
  return false;
}

template <typename Api>
Applied Applier::ApplyWith(const typename Api::Message& wanted) {
  using Message = typename Api::Message;
  Api api(session_);
  Applied applied;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    Message current;
    Message next;
    applied.status = api.Get(wanted.name(), current);
    const bool absent = applied.status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (!absent && !applied.status.ok()) return applied;
    applied.effect = absent ? ApplyEffect::kCreated : ApplyEffect::kConfigured;
    if (absent) {
      applied.status = api.Create(wanted, dry_run_, next);
    } else {
      Message change = wanted;
      change.set_etag(current.etag());
      applied.before = ManifestYaml(WithoutServerFields(current));
      applied.status = api.Update(change, /*validate_only=*/true, next);
      if (applied.status.ok() && google::protobuf::util::MessageDifferencer::Equals(
                                     WithoutServerFields(current), WithoutServerFields(next))) {
        applied.effect = ApplyEffect::kUnchanged;
      } else if (applied.status.ok() && !dry_run_) {
        applied.status = api.Update(change, /*validate_only=*/false, next);
      }
    }
    if (RefersToPlannedPolicy<Api>(applied.status, wanted)) {
      applied.status = grpc::Status::OK;
      next = wanted;
    }
    // Another client created or changed it since it was read: read it again.
    const bool raced = applied.status.error_code() == grpc::StatusCode::ABORTED ||
                       applied.status.error_code() == grpc::StatusCode::ALREADY_EXISTS;
    if (raced) continue;
    // The server shows the name of a schedule that it only validated as it would be.
    next.set_name(wanted.name());
    applied.after = ManifestYaml(WithoutServerFields(next));
    applied.warnings = Api::WarningsOf(next);
    return applied;
  }
  return applied;
}

Applied Applier::Apply(const v1::Schedule& wanted) { return ApplyWith<ScheduleApi>(wanted); }

Applied Applier::Apply(const v1::ThrottlePolicy& wanted) {
  Applied applied = ApplyWith<PolicyApi>(wanted);
  if (applied.status.ok() && applied.effect == ApplyEffect::kCreated)
    planned_policies_.push_back(wanted.name());
  return applied;
}

Applied Applier::Prune(const v1::Schedule& listed) {
  Applied applied;
  applied.effect = ApplyEffect::kPruned;
  if (dry_run_) {
    v1::Schedule current;  // lists have no payload
    applied.status = ScheduleApi(session_).Get(listed.name(), current);
    applied.before = ManifestYaml(WithoutServerFields(current));
    return applied;
  }
  v1::DeleteScheduleRequest request;
  request.set_name(listed.name());
  request.set_etag(listed.etag());
  google::protobuf::Empty nothing;
  applied.status = session_.Call(&v1::ScheduleService::Stub::DeleteSchedule, request, nothing);
  return applied;
}

}  // namespace escapement::escctl
