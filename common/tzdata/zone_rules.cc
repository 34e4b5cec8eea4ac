#include "common/tzdata/zone_rules.h"

#include <algorithm>
#include <cstdint>

#include "common/base/key_codec.h"

namespace escapement::tzdata {
namespace {

using cron::OffsetSpan;

constexpr size_t kHeadBytes = 20, kChangeBytes = 12;
// No zone has more changes of offset in the stored years.
constexpr size_t kChangesMax = 10'000;

// The span that holds `instant`.
size_t SpanAt(const std::vector<OffsetSpan>& spans, int64_t instant) {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), instant,
                       [](int64_t t, const OffsetSpan& span) { return t < span.begin; });
  return static_cast<size_t>(after - spans.begin()) - 1;
}

int64_t ReadSeconds(absl::string_view bytes) {
  return static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes));
}

int64_t ReadOffset(absl::string_view bytes) {
  return static_cast<int32_t>(ReadBigEndian<uint32_t>(bytes));
}

}  // namespace

ZoneRules RulesOf(const cron::Zone& zone, absl::Time begin, absl::Time end) {
  const int64_t from = absl::ToUnixSeconds(begin), to = absl::ToUnixSeconds(end);
  ZoneRules rules{.begin = absl::FromUnixSeconds(from), .end = absl::FromUnixSeconds(to)};
  size_t span = zone.SpanAt(from);
  rules.spans.push_back({.offset = zone.spans()[span].offset});
  for (++span; span < zone.spans().size() && zone.spans()[span].begin < to; ++span)
    rules.spans.push_back(zone.spans()[span]);
  return rules;
}

bool SameRules(const ZoneRules& a, const ZoneRules& b, absl::Time end) {
  end = std::min({a.end, b.end, end});
  int64_t at = absl::ToUnixSeconds(std::max(a.begin, b.begin));
  if (absl::FromUnixSeconds(at) >= end) return true;
  size_t i = SpanAt(a.spans, at), j = SpanAt(b.spans, at);
  while (a.spans[i].offset == b.spans[j].offset) {
    // Go on to the next change of either zone.
    const bool more_a = i + 1 < a.spans.size(), more_b = j + 1 < b.spans.size();
    if (!more_a && !more_b) return true;
    at = std::min(more_a ? a.spans[i + 1].begin : b.spans[j + 1].begin,
                  more_b ? b.spans[j + 1].begin : a.spans[i + 1].begin);
    if (absl::FromUnixSeconds(at) >= end) return true;
    if (more_a && a.spans[i + 1].begin == at) ++i;
    if (more_b && b.spans[j + 1].begin == at) ++j;
  }
  return false;
}

std::string EncodeRules(const ZoneRules& rules) {
  std::string out;
  AppendBigEndian(&out, static_cast<uint64_t>(absl::ToUnixSeconds(rules.begin)));
  AppendBigEndian(&out, static_cast<uint64_t>(absl::ToUnixSeconds(rules.end)));
  AppendBigEndian(&out, static_cast<uint32_t>(rules.spans[0].offset));
  for (size_t i = 1; i < rules.spans.size(); ++i) {
    AppendBigEndian(&out, static_cast<uint64_t>(rules.spans[i].begin));
    AppendBigEndian(&out, static_cast<uint32_t>(rules.spans[i].offset));
  }
  return out;
}

std::optional<ZoneRules> DecodeRules(absl::string_view bytes) {
  if (bytes.size() < kHeadBytes || (bytes.size() - kHeadBytes) % kChangeBytes != 0 ||
      bytes.size() > kHeadBytes + kChangeBytes * kChangesMax)
    return std::nullopt;
  ZoneRules rules{.begin = absl::FromUnixSeconds(ReadSeconds(bytes)),
                  .end = absl::FromUnixSeconds(ReadSeconds(bytes.substr(8)))};
  rules.spans.push_back({.offset = ReadOffset(bytes.substr(16))});
  for (bytes.remove_prefix(kHeadBytes); !bytes.empty(); bytes.remove_prefix(kChangeBytes)) {
    const OffsetSpan span{.begin = ReadSeconds(bytes), .offset = ReadOffset(bytes.substr(8))};
    if (span.begin <= rules.spans.back().begin) return std::nullopt;
    rules.spans.push_back(span);
  }
  return rules;
}

}  // namespace escapement::tzdata
