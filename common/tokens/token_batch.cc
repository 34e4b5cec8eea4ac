#include "common/tokens/token_batch.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_door.h"

namespace escapement {
namespace {

using Report = storage::v1::GrantReportRecord;

constexpr absl::string_view kNoReason = "failed by the consumer";
constexpr size_t kViolationsMax = 100;
// Bytes of an entry with its result and its share of the records made from it, without the output.
constexpr size_t kEntryBytes = 320;

void CheckCount(int count, absl::string_view field, FieldViolations& violations) {
  if (count == 0) violations.Add(field, "must not be empty");
  if (count > kTokensMax) violations.Add(field, absl::StrCat("must hold at most ", kTokensMax));
}

void CheckHandles(const google::protobuf::RepeatedPtrField<std::string>& tokens,
                  FieldViolations& violations) {
  CheckCount(tokens.size(), "tokens", violations);
  if (!violations.empty()) return;
  for (int i = 0; i < tokens.size() && violations.size() < kViolationsMax; ++i) {
    if (tokens[i].empty()) violations.Add(absl::StrCat("tokens[", i, "]"), "is required");
  }
}

Report::Kind KindOf(const v1::TokenCompletion& completion) {
  if (completion.outcome() == v1::TokenCompletion::SUCCEEDED) return Report::COMPLETED;
  return completion.final() ? Report::COMPLETION_FAILED_FINALLY : Report::COMPLETION_FAILED;
}

// Collects entries, then orders them.
class BatchReader {
 public:
  BatchReader(const TokenMint& mint, size_t tokens) : mint_(mint) {
    batch_.results.assign(tokens, v1::TokenResult::STATUS_UNSPECIFIED);
    batch_.entries.reserve(tokens);
    batch_.bytes = tokens * kEntryBytes;
  }

  void Add(absl::string_view handle, TokenEntry entry) {
    const std::optional<TokenName> token = mint_.Read(handle);
    entry.position = next_position_++;
    if (!token.has_value()) {
      batch_.results[entry.position] = v1::TokenResult::INVALID;
      return;
    }
    entry.token = *token;
    batch_.bytes += entry.output.size();
    batch_.entries.push_back(std::move(entry));
  }

  TokenBatch Take() {
    std::sort(batch_.entries.begin(), batch_.entries.end(),
              [](const TokenEntry& a, const TokenEntry& b) {
                return std::tie(a.token.grant, a.token.index, a.position) <
                       std::tie(b.token.grant, b.token.index, b.position);
              });
    DropRepeats();
    return std::move(batch_);
  }

 private:
  void DropRepeats() {
    std::vector<TokenEntry>& entries = batch_.entries;
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (kept > 0 && entries[kept - 1].token == entries[i].token) {
        if (entries[i].kind == Report::EXTENDED) {
          batch_.repeats.push_back(
              {.position = entries[i].position, .first = entries[kept - 1].position});
        } else {
          batch_.results[entries[i].position] = v1::TokenResult::NOT_HELD;
        }
        continue;
      }
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
    entries.resize(kept);
  }

  const TokenMint& mint_;
  TokenBatch batch_;
  uint32_t next_position_ = 0;
};

}  // namespace

absl::Status CheckTokens(const v1::CompleteTokensRequest& request) {
  FieldViolations violations;
  CheckCount(request.completions_size(), "completions", violations);
  if (!violations.empty()) return violations.ToStatus();
  size_t output_bytes = 0;
  for (int i = 0; i < request.completions_size() && violations.size() < kViolationsMax; ++i) {
    const v1::TokenCompletion& completion = request.completions(i);
    const auto add = [&](absl::string_view field, absl::string_view description) {
      violations.Add(absl::StrCat("completions[", i, "].", field), description);
    };
    if (completion.token().empty()) add("token", "is required");
    if (completion.outcome() != v1::TokenCompletion::SUCCEEDED &&
        completion.outcome() != v1::TokenCompletion::FAILED) {
      add("outcome", "must be SUCCEEDED or FAILED");
    }
    if (completion.output().size() > kTokenOutputBytesMax)
      add("output", absl::StrCat("must have at most ", kTokenOutputBytesMax, " bytes"));
    output_bytes += completion.output().size();
  }
  if (output_bytes > kTokenOutputsBytesMax) {
    violations.Add("completions", absl::StrCat("outputs must have at most ", kTokenOutputsBytesMax,
                                               " bytes together"));
  }
  return violations.ToStatus();
}

absl::Status CheckTokens(const v1::ReleaseTokensRequest& request) {
  FieldViolations violations;
  CheckHandles(request.tokens(), violations);
  return violations.ToStatus();
}

absl::Status CheckTokens(const v1::ExtendTokensRequest& request) {
  FieldViolations violations;
  CheckHandles(request.tokens(), violations);
  if (request.has_hold()) {
    const std::optional<absl::Duration> hold = ToDuration(request.hold());
    if (!hold.has_value() || *hold < kTokenHoldMin || *hold > kTokenHoldMax)
      violations.Add("hold", "must be from 1s to 30 days");
  }
  return violations.ToStatus();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::CompleteTokensRequest& request) {
  BatchReader reader(mint, request.completions_size());
  for (const v1::TokenCompletion& completion : request.completions())
    reader.Add(completion.token(), {.kind = KindOf(completion), .output = completion.output()});
  return reader.Take();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::ReleaseTokensRequest& request) {
  BatchReader reader(mint, request.tokens_size());
  for (const std::string& token : request.tokens()) reader.Add(token, {.kind = Report::RELEASED});
  return reader.Take();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::ExtendTokensRequest& request) {
  BatchReader reader(mint, request.tokens_size());
  const int64_t hold_micros = MicrosUp(*ToDuration(request.hold()));
  for (const std::string& token : request.tokens())
    reader.Add(token, {.kind = Report::EXTENDED, .hold_micros = hold_micros});
  return reader.Take();
}

Report::Entry ReportEntry(TokenEntry entry) {
  Report::Entry report;
  report.set_policy_uid(entry.token.grant.policy.bytes().data(), Uid::kBytes);
  report.set_epoch(entry.token.grant.epoch);
  report.set_number(entry.token.grant.number);
  report.set_kind(entry.kind);
  report.set_first(entry.token.index);
  report.set_count(1);
  report.set_hold_micros(entry.hold_micros);
  if (entry.kind == Report::COMPLETION_FAILED || entry.kind == Report::COMPLETION_FAILED_FINALLY) {
    report.set_reason(entry.output.empty() ? std::string(kNoReason)
                                           : CleanText(entry.output, kTokenReasonBytesMax));
  }
  report.set_output(std::move(entry.output));
  return report;
}

std::vector<kv::Mutation> ReportRows(std::vector<TokenEntry> entries, absl::Time time, uint64_t a,
                                     uint64_t b) {
  std::vector<kv::Mutation> rows;
  Report row;
  size_t row_bytes = 0;
  ReportKey key = {.origin = kReportFromDoor, .a = a, .b = b};
  const auto end_row = [&] {
    if (row.entries_size() == 0) return;
    rows.push_back({.cf = kv::ColumnFamily::kWaiting,
                    .key = EncodeReportKey(key),
                    .value = row.SerializeAsString()});
    ++key.c;
    row.Clear();
    row_bytes = 0;
  };
  for (TokenEntry& entry : entries) {
    if (entry.token.grant.policy_shard != key.policy_shard ||
        row.entries_size() >= kReportRowEntriesMax || row_bytes >= kReportRowBytesMax) {
      end_row();
    }
    key.policy_shard = entry.token.grant.policy_shard;
    Report::Entry& report = *row.add_entries() = ReportEntry(std::move(entry));
    report.set_time_micros(ToMicros(time));
    row_bytes += report.ByteSizeLong();
  }
  end_row();
  return rows;
}

bool Holds(const storage::v1::GrantRecord& grant, uint64_t index) {
  return std::any_of(grant.holders().begin(), grant.holders().end(), [index](const auto& holders) {
    return index >= holders.first() && index - holders.first() < holders.count();
  });
}

}  // namespace escapement
