#include "common/process/gated_service.h"

#include <utility>

#include "absl/status/status.h"
#include "common/base/log.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::tzdata {

GatedService::GatedService(const ServiceContext& context, kv::KvStore& store, HostedService& inner)
    : inner_(inner),
      gate_(
          {.database = ThisMachine(), .instance = context.instance, .metrics = &context.metrics},
          store, context.runtime, [this] { StartInner(); }, [this] { DrainInner(); }) {}

GatedService::~GatedService() { gate_.executor()->Stop(); }

absl::Status GatedService::Start() {
  gate_.Start();
  return absl::OkStatus();
}

std::string GatedService::NotReadyReason() {
  if (gate_.Open()) return inner_.NotReadyReason();
  return "time zone database: this machine's is not known to be the one in force";
}

void GatedService::StartInner() {
  if (state_ != Inner::kNew) return;  // the process is already ending
  state_ = Inner::kStarted;
  if (const absl::Status status = inner_.Start(); !status.ok()) {
    Log(LogLevel::kError, "tzdata", "the service could not start",
        {{"error", std::string(status.message())}});
  }
}

void GatedService::DrainInner() {
  if (state_ == Inner::kNew) return OnDrained();
  if (state_ != Inner::kStarted) return;
  state_ = Inner::kDraining;
  inner_.Drain([this, executor = gate_.executor()] { executor->Post([this] { OnDrained(); }); });
}

void GatedService::OnDrained() {
  state_ = Inner::kDrained;
  for (Closure& done : std::exchange(when_drained_, {})) done();
}

void GatedService::Drain(Closure done) {
  gate_.executor()->Post([this, done = std::move(done)]() mutable {
    if (state_ == Inner::kDrained) return done();
    when_drained_.push_back(std::move(done));
    DrainInner();
  });
}

}  // namespace escapement::tzdata
