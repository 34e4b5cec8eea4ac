#include "services/emitter/runs/run_end_event.h"

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"

namespace escapement::emitter {
namespace {

constexpr uint32_t kRunEndPriority = 5;

std::string JsonTime(int64_t micros) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E*SZ", FromMicros(micros), absl::UTCTimeZone());
}

// Names consist of characters that stand for themselves; whatever else a record holds makes no
// invalid JSON.
std::string JsonName(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  }
  return out;
}

}  // namespace

RunCounts RunCounts::Of(const storage::v1::RunPartRecord& part) {
  return {.succeeded = part.succeeded(),
          .failed = part.failed(),
          .expired = part.expired(),
          .skipped = part.skipped(),
          .cancelled = part.cancelled()};
}

RunCounts& RunCounts::operator+=(const RunCounts& other) {
  succeeded += other.succeeded;
  failed += other.failed;
  expired += other.expired;
  skipped += other.skipped;
  cancelled += other.cancelled;
  return *this;
}

RunCounts& RunCounts::operator-=(const RunCounts& other) {
  succeeded -= other.succeeded;
  failed -= other.failed;
  expired -= other.expired;
  skipped -= other.skipped;
  cancelled -= other.cancelled;
  return *this;
}

std::string RunEndEventId(absl::string_view tenant, const RunKey& run) {
  return absl::StrCat(
      "run-ended-",
      StableHash128(KeyWriter().Text(tenant).Id(run.uid).Text(run.occurrence).Take()).ToHex());
}

std::string RunEndPayload(const storage::v1::RunRecord& record, absl::string_view occurrence,
                          const RunCounts& counts) {
  const std::string name = absl::StrCat("tenants/", record.tenant(), "/schedules/",
                                        record.schedule_id(), "/runs/", occurrence);
  std::string json = absl::StrCat("{\"run\":\"", JsonName(name), "\",\"nominal_time\":\"",
                                  JsonTime(record.nominal_time_micros()), "\",\"complete_time\":\"",
                                  JsonTime(record.complete_time_micros()), "\"");
  absl::StrAppend(&json, ",\"event_count\":", record.event_count());
  absl::StrAppend(&json, ",\"succeeded\":", counts.succeeded, ",\"failed\":", counts.failed);
  absl::StrAppend(&json, ",\"expired\":", counts.expired, ",\"skipped\":", counts.skipped);
  absl::StrAppend(&json, ",\"cancelled\":", counts.cancelled, "}");
  return json;
}

void AddRunEndEvent(const storage::v1::RunRecord& record, const RunKey& run,
                    const RunCounts& counts, const InternedDelivery& interned,
                    uint32_t queue_shards, absl::Time now, kv::Group& group) {
  const std::string id = RunEndEventId(record.tenant(), run);
  const std::string payload = RunEndPayload(record, run.occurrence, counts);
  NewEvent event;
  event.client_id = id;
  event.nominal_micros = ToMicros(now);
  event.payload = payload;
  event.definition_hash = &interned.hash;
  event.priority = kRunEndPriority;
  EventRowBuilder::Options options;
  options.tenant = record.tenant();
  options.queue_shards = queue_shards;
  options.now = now;
  EventRowBuilder(std::move(options)).Add(event, group);
}

}  // namespace escapement::emitter
