#include "services/handler/delivery/delivery_transport.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"
#include "common/secrets/record_secrets.h"
#include "escapement/storage/v1/records.pb.h"

ABSL_FLAG(std::vector<std::string>, delivery_allowed_addresses, {},
          "ranges of addresses that targets may have besides the globally reachable ones, e.g. "
          "10.0.0.0/8,fd00::/8. If it is empty and both ports listen on loopback: loopback. "
          "Metadata services of clouds are never allowed");

namespace escapement::handler {

void ValidateAddressFlags(std::vector<std::string>& errors) {
  const auto rule = AddressRule::Allowing(absl::GetFlag(FLAGS_delivery_allowed_addresses));
  if (!rule.ok())
    errors.push_back(absl::StrCat("--delivery_allowed_addresses: ", rule.status().message()));
}

std::shared_ptr<const AddressRule> AddressRuleFromFlags(bool on_loopback) {
  const std::vector<std::string> ranges = absl::GetFlag(FLAGS_delivery_allowed_addresses);
  if (!ranges.empty() || !on_loopback)
    return std::make_shared<const AddressRule>(*AddressRule::Allowing(ranges));
  Log(LogLevel::kInfo, "delivery",
      "targets may have loopback addresses, because this process listens on loopback only");
  return std::make_shared<const AddressRule>(AddressRule::AllowingLoopback());
}

std::string DeliveryContext::Source() const {
  return event_id.empty() ? source : absl::StrCat("/tenants/", tenant, "/events/", event_id);
}

void DeliveryContext::SetPayload(std::string text) {
  auto kept = std::make_shared<const std::string>(std::move(text));
  payload = *kept;
  bytes = std::move(kept);
}

namespace {

constexpr char kRedacted[] = "(secret)";
// A shorter part could be any word of a text.
constexpr size_t kPartBytesMin = 8;
// The same for a part of a URL's path.
constexpr size_t kSegmentBytesMin = 16;

void AddLongOnes(absl::string_view text, const char* separators, size_t bytes_min,
                 std::set<std::string>* parts) {
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(separators))) {
    if (part.size() >= bytes_min) parts->emplace(part);
  }
}

void AddParts(absl::string_view secret, std::set<std::string>* parts) {
  if (absl::StartsWith(secret, "-----")) {  // PEM
    for (const absl::string_view line : absl::StrSplit(secret, absl::ByAnyChar("\r\n"))) {
      if (!absl::StartsWith(line, "-----") && line.size() >= kPartBytesMin) parts->emplace(line);
    }
    return;
  }
  if (const size_t scheme = secret.find("://"); scheme != absl::string_view::npos) {
    const size_t path = secret.find('/', scheme + 3);
    if (path == absl::string_view::npos) return;
    if (secret.size() - path >= kPartBytesMin) parts->emplace(secret.substr(path));
    return AddLongOnes(secret.substr(path), "/?&=", kSegmentBytesMin, parts);
  }
  // "Bearer {token}", "{key id}:{secret}", "whsec_{key}".
  AddLongOnes(secret, " :_", kPartBytesMin, parts);
}

// False: the target has no secret. It saves a look at each field of each definition.
bool MayHaveSecrets(const storage::v1::TargetRecord& target) {
  switch (target.kind_case()) {
    case storage::v1::TargetRecord::kHttp:
      return target.http().has_tls() || target.http().secret_headers_size() > 0 ||
             target.http().signing_secrets_size() > 0;
    case storage::v1::TargetRecord::kGrpc:
      return target.grpc().has_tls();
    case storage::v1::TargetRecord::kKafka:
      return target.kafka().has_tls() || !target.kafka().sasl_password().empty();
    case storage::v1::TargetRecord::kPing:
      return false;
    default:
      return true;
  }
}

using DefinitionPtr = std::shared_ptr<const storage::v1::DefinitionRecord>;

class Sink final : public DeliverySink {
 public:
  Sink(std::vector<DefinitionPtr> definitions, std::shared_ptr<DeliverySink> sink)
      : definitions_(std::move(definitions)), sink_(std::move(sink)) {}

  void OnResult(uint64_t tag, DeliveryResult result) override {
    RedactTexts(result);
    sink_->OnResult(tag, std::move(result));
  }

  void OnResults(std::vector<TaggedResult> results) override {
    for (TaggedResult& each : results) RedactTexts(each.result);
    sink_->OnResults(std::move(results));
  }

 private:
  void RedactTexts(DeliveryResult& result) {
    if (result.message.empty() && result.answer.empty()) return;
    absl::call_once(once_, &Sink::FindParts, this);
    Redact(parts_, &result.message);
    Redact(parts_, &result.answer);
  }

  void FindParts() {
    std::vector<std::string> secrets;
    for (const DefinitionPtr& definition : definitions_) {
      for (RecordSecret& secret : SecretsOf(definition->delivery().target()))
        secrets.push_back(std::move(secret.value));
    }
    parts_ = SecretParts(secrets);
  }

  const std::vector<DefinitionPtr> definitions_;
  const std::shared_ptr<DeliverySink> sink_;
  absl::once_flag once_;
  std::vector<std::string> parts_;  // written once, before they are read
};

}  // namespace

std::vector<std::string> SecretParts(const std::vector<std::string>& secrets) {
  std::set<std::string> parts;
  for (const std::string& secret : secrets) {
    parts.insert(secret);
    AddParts(secret, &parts);
  }
  std::vector<std::string> sorted(parts.begin(), parts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return sorted;
}

void Redact(const std::vector<std::string>& parts, std::string* text) {
  for (const std::string& part : parts) {
    if (absl::StrContains(*text, part)) absl::StrReplaceAll({{part, kRedacted}}, text);
  }
  for (const std::string& part : parts) {
    const absl::string_view whole = part;
    for (size_t size = std::min(whole.size(), text->size()); size >= kPartBytesMin; --size) {
      if (!absl::EndsWith(*text, whole.substr(0, size))) continue;
      text->resize(text->size() - size);
      text->append(kRedacted);
      break;
    }
  }
}

std::shared_ptr<DeliverySink> RedactingSink(const std::vector<DeliveryAttempt>& attempts,
                                            std::shared_ptr<DeliverySink> sink) {
  std::vector<DefinitionPtr> definitions;
  const storage::v1::DefinitionRecord* last = nullptr;
  for (const DeliveryAttempt& attempt : attempts) {
    if (attempt.context->definition.get() == last) continue;
    last = attempt.context->definition.get();
    if (MayHaveSecrets(last->delivery().target()))
      definitions.push_back(attempt.context->definition);
  }
  if (definitions.empty()) return sink;
  return std::make_shared<Sink>(std::move(definitions), std::move(sink));
}

MonotonicMicros MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

MonotonicMicros TimeoutMicros(absl::Duration timeout) {
  return absl::ToInt64Microseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(20 * 24)));
}

int PollMillis(MonotonicMicros at) {
  constexpr MonotonicMicros kMax = 60'000'000;
  const MonotonicMicros now = MonotonicNow();
  return static_cast<int>(at <= now ? 0 : (std::min(at - now, kMax) + 999) / 1000);
}

}  // namespace escapement::handler
